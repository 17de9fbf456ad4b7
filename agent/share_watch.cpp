#include "agent/share_watch.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "agent/io/process.hpp"

namespace spotter {

ShareWatch::ShareWatch(asio::io_context& context, std::string program, std::string home,
                       std::string place, Hands hands)
    : program_(std::move(program)),
      home_(std::move(home)),
      place_(std::move(place)),
      hands_(std::move(hands)),
      pause_(context),
      patience_(context) {}

void ShareWatch::said(const std::string& words) {
  if (words == last_) return;
  if (words.empty()) {
    spdlog::info("{} answers again", place_);
  } else {
    spdlog::error("{}", words);
  }
  last_ = words;
  hands_.say(words);
}

asio::awaitable<void> ShareWatch::ask() {
  patience_.expires_after(kPatience);
  patience_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    hanging_ = true;
    hands_.hanging(true);
    said(place_ + " does not answer: whatever touches it waits");
  });
  io::ProcessRequest request;
  request.argv = {program_, "host", "probe-share", "--path", home_};
  request.timeout = std::chrono::hours(24 * 365);
  auto running = io::run(std::move(request));
  const io::ProcessResult result = co_await std::move(running);
  patience_.cancel();
  if (std::exchange(hanging_, false)) hands_.hanging(false);
  const auto answer = nlohmann::json::parse(result.output, nullptr, false);
  const bool ok = answer.is_object() && answer.value("ok", false);
  const std::string why = answer.is_object() ? answer.value("error", "") : result.errors;
  said(ok || !hands_.wanted() ? "" : place_ + " fails: " + why);
}

asio::awaitable<void> ShareWatch::watch() {
  for (;;) {
    pause_.expires_after(kEvery);
    co_await pause_.async_wait(asio::use_awaitable);
    if (!hands_.wanted()) {
      if (!last_.empty()) said("");
      continue;
    }
    auto asking = ask();
    co_await std::move(asking);
  }
}

}  // namespace spotter
