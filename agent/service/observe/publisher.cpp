#include "agent/service/observe/publisher.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "agent/io/log.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/events.hpp"

namespace spotter {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds every = 120s;           // the child is half of the cost
constexpr std::chrono::milliseconds together = 500ms;  // batches entries of one moment
constexpr std::chrono::milliseconds patience = 30s;

// Entries that must be published at once.
bool is_news(const wire::HistoryEntry& entry) {
  constexpr std::array<std::string_view, 5> kinds = {"checkpoint", "account", "price", "problem",
                                                     "volume"};
  return std::ranges::find(kinds, entry.what) == kinds.end();
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Publisher::Publisher(asio::io_context& context, std::string run_directory, wire::S3Location place,
                     const HistoryFile& history)
    : run_directory_(std::move(run_directory)),
      place_(std::move(place)),
      history_(history),
      next_(context) {
  asio::co_spawn(context, work(), io::rethrow);
}

void Publisher::on_message(const wire::TrainerMessage& message) {
  metrics_.on_message(message, std::chrono::system_clock::now());
}

void Publisher::publish_status(bool now) {
  last_word_ = (last_word_ || speaks_) && !now;
  speaks_ = now;
}

void Publisher::on_entry(const wire::HistoryEntry& entry) {
  if (!is_news(entry)) return;
  if (!soon_ && !busy_) next_.expires_after(together);  // cancels the current wait
  soon_ = true;
}

asio::awaitable<void> Publisher::work() {
  for (;;) {
    next_.expires_after(soon_ ? std::chrono::steady_clock::duration(together) : every);
    boost::system::error_code woken;
    co_await next_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (woken) continue;
    soon_ = false;
    busy_ = true;
    auto publishing = publish(patience);
    co_await std::move(publishing);
    busy_ = false;
  }
}

io::ProcessRequest Publisher::request(const act::Metrics::News& news,
                                      std::chrono::milliseconds limit) const {
  io::ProcessRequest request;
  request.argv = {command::own_program(),
                  "publish",
                  "--to",
                  wire::to_url(place_),
                  "--from",
                  run_directory_,
                  "--name",
                  history_.segment()};
  if (history_.size() != history_sent_) request.argv.emplace_back("--history");
  if (speaks_ || last_word_) request.argv.emplace_back("--status");
  if (news.resumed)
    request.argv.insert(request.argv.end(), {"--resumed", std::to_string(*news.resumed)});
  request.argv.insert(request.argv.end(), {"--patience", std::to_string((limit * 4 / 5).count())});
  request.stdin_text = to_lines(news.curve);
  request.timeout = limit;
  request.kill_grace = 0ms;
  return request;
}

asio::awaitable<void> Publisher::publish(std::chrono::milliseconds limit) {
  if (history_.segment().empty()) co_return;
  act::Metrics::News news = metrics_.take();
  const std::size_t size = history_.size();
  const bool last_word = last_word_;
  auto running = io::run(request(news, limit));
  const io::ProcessResult result = co_await std::move(running);
  const bool done = result.end == io::ProcessResult::End::Exited && result.status == 0;
  if (done) {
    history_sent_ = size;
    last_word_ = last_word_ && !last_word;
  } else {
    metrics_.put_back(std::move(news));
  }
  judge(result);
}

// Logs a failure once, until it works again.
void Publisher::judge(const io::ProcessResult& result) {
  const bool done = result.end == io::ProcessResult::End::Exited && result.status == 0;
  if (done == !failing_) return;
  failing_ = !done;
  if (done) return spdlog::info("{} can be written again", wire::to_url(place_));
  const bool late = result.end == io::ProcessResult::End::TimedOut;
  io::note(wire::event("not-published"), spdlog::level::warn,
           "nothing can be published at {}: {}; the job goes on", wire::to_url(place_),
           late ? "S3 does not answer in time" : last_line(result.errors));
}

// The agent's own context has ended, so nothing else runs meanwhile.
void Publisher::end(std::chrono::milliseconds at_most) {
  asio::io_context last(1);
  asio::co_spawn(last, publish(at_most), asio::detached);
  last.run_for(at_most + 1s);
}

}  // namespace spotter
