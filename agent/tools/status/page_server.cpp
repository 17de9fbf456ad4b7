#include "agent/tools/status/page_server.hpp"

#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "agent/io/kernel.hpp"
#include "agent/io/local_server.hpp"
#include "agent/report/page/feed.hpp"
#include "agent/report/page/page.hpp"

namespace spotter::command {
namespace {

using io::LocalRequest;
using io::LocalResponse;
using nlohmann::json;

constexpr std::chrono::milliseconds look_again{250};
constexpr std::chrono::seconds silence{10};  // writing shows that a page is gone

struct Stream {
  page::Feed feed;
  std::shared_ptr<const json> sent;
};

// Waits for the next events.
asio::awaitable<std::string> next(const PageServer& server, std::shared_ptr<Stream> stream) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  const auto until = std::chrono::steady_clock::now() + silence;
  while (std::chrono::steady_clock::now() < until) {
    if (auto latest = server.latest(); latest != stream->sent) {
      std::string text = stream->feed.next(*latest, {{"now", io::wall_clock()}});
      stream->sent = std::move(latest);
      if (!text.empty()) co_return text;
    }
    timer.expires_after(look_again);
    auto waiting = timer.async_wait(asio::use_awaitable);
    co_await std::move(waiting);
  }
  co_return std::string(page::heartbeat);
}

LocalResponse refusal(int status, const std::string& words) {
  return {status, words + "\n", "text/plain; charset=utf-8"};
}

LocalResponse answer(const PageServer& server, const LocalRequest& request) {
  if (!page::is_loopback_name(request.host))
    return refusal(403, "this page is of this machine only: ask for 127.0.0.1");
  if (!page::is_same_origin(request.host, request.origin))
    return refusal(403, "a page of another origin may not ask for that");
  if (request.method != "GET") return refusal(405, "only GET");
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path == "/") return {200, page::html(), "text/html; charset=utf-8"};
  if (path == "/model")
    return {200, server.latest()->dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
  if (path != "/events") return refusal(404, "there is only /, /model and /events");
  LocalResponse response{200, "", "text/event-stream"};
  const auto stream = std::make_shared<Stream>();
  response.more = [&server, stream] { return next(server, stream); };
  return response;
}

}  // namespace

Result<void> serve_page(const PageServer& server) {
  asio::io_context context{1};
  io::LocalServer local(context, [&server](LocalRequest request) -> asio::awaitable<LocalResponse> {
    co_return answer(server, request);
  });
  if (const auto failed = local.open(server.port))
    return failure("port " + std::to_string(server.port) + " of 127.0.0.1: " + failed.message() +
                   "; choose another with --port, or let one be chosen without it");
  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&context](const boost::system::error_code&, int) { context.stop(); });
  server.ready("http://127.0.0.1:" + std::to_string(local.port()) + "/");
  context.run();
  return {};
}

}  // namespace spotter::command
