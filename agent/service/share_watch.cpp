#include "agent/service/share_watch.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "agent/io/log.hpp"
#include "agent/io/process.hpp"
#include "agent/wire/events.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter {

ShareWatch::Share ShareWatch::share_of(const config::Job& job) {
  const config::Share& share = *job.storage.share;
  const bool folder =
      share.kind == config::Share::Kind::Folder || share.kind == config::Share::Kind::S3;
  return {job.home(), folder ? "" : share.mount, config::describe(share)};
}

ShareWatch::ShareWatch(asio::io_context& context, std::string program, Share share,
                       Callbacks callbacks)
    : program_(std::move(program)),
      share_(std::move(share)),
      callbacks_(std::move(callbacks)),
      pause_(context),
      patience_(context) {}

void ShareWatch::said(const std::string& words) {
  if (words == last_) return;
  if (words.empty()) {
    io::note(wire::event("share-answers"), spdlog::level::info, "{} answers again", share_.place);
  } else {
    io::note(wire::event("share-silent-now"), spdlog::level::err, "{}", words);
  }
  last_ = words;
  callbacks_.say(words);
}

asio::awaitable<void> ShareWatch::ask() {
  patience_.expires_after(kPatience);
  patience_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    hanging_ = true;
    callbacks_.hanging(true);
    said(share_.place + " does not answer: whatever touches it waits");
  });
  io::ProcessRequest request;
  request.argv = {program_, "host"};
  request.stdin_text = verbs::to_json({verbs::ProbeShare{share_.home, share_.mount}, {}});
  request.timeout = std::chrono::hours(24 * 365);
  auto running = io::run(std::move(request));
  const io::ProcessResult result = co_await std::move(running);
  patience_.cancel();
  if (std::exchange(hanging_, false)) callbacks_.hanging(false);
  const auto answer = nlohmann::json::parse(result.output, nullptr, false);
  if (answer.is_object() && !answer.value("mounted", true)) co_return;  // released meanwhile
  const bool ok = answer.is_object() && answer.value("ok", false);
  const std::string why = answer.is_object() ? answer.value("error", "") : result.errors;
  said(ok || !callbacks_.wanted() ? "" : share_.place + " fails: " + why);
}

asio::awaitable<void> ShareWatch::watch() {
  for (;;) {
    pause_.expires_after(kEvery);
    co_await pause_.async_wait(asio::use_awaitable);
    if (!callbacks_.wanted()) {
      if (!last_.empty()) said("");
      continue;
    }
    auto asking = ask();
    co_await std::move(asking);
  }
}

}  // namespace spotter
