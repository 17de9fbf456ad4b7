#include "agent/service/observe/notifier.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agent/aws/formats/services.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/log.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/wire/events.hpp"
#include "agent/wire/monitoring.hpp"

namespace spotter {
namespace {

constexpr Duration one_try{10'000};
constexpr Duration whole_post{30'000};
constexpr Duration whole_publish{30'000};
constexpr std::size_t most_waiting = 16;  // then the oldest is dropped
// Pauses before a POST is sent again.
constexpr Duration pauses[] = {Duration{1'000}, Duration{4'000}, Duration{15'000}};

bool may_pass(int status) { return status == 408 || status == 429 || status >= 500; }

// Slack's reason for a refusal, as no_service. A longer body could contain the URL.
std::string words_of(const std::string& body) {
  const bool one_word = body.size() <= 40 && !body.empty() && std::ranges::all_of(body, [](char c) {
                          return (c >= 'a' && c <= 'z') || c == '_';
                        });
  return one_word ? " (" + body + ")" : "";
}

void complain(std::string_view event, const std::string& why) {
  io::note(wire::event("notification-failed"), spdlog::level::warn,
           "a notification was not delivered ({}): {}", event, why);
}

}  // namespace

void Notifier::send(const Notification& notification) {
  const auto& on = job_.notify.on;
  if (std::ranges::find(on, notification.event) == on.end()) return;
  if (!job_.attempt.empty() && notification.event != "failed") return;
  if (job_.notify.webhook) add(hook_, notification);
  if (!job_.notify.topic.empty()) add(topic_, notification);
}

void Notifier::add(Way& way, const Notification& notification) {
  if (way.waiting.size() == most_waiting) way.waiting.pop_front();
  way.waiting.push_back(notification);
  if (std::exchange(way.sending, true)) return;
  asio::co_spawn(context_, send_all(way), io::rethrow);
}

asio::awaitable<void> Notifier::send_all(Way& way) {
  while (!way.waiting.empty()) {
    const Notification next = way.waiting.front();
    way.waiting.pop_front();
    auto sending = (this->*way.send)(next);
    const Result<void> sent = co_await std::move(sending);
    if (!sent) complain(next.event, sent.error().message);
  }
  way.sending = false;
}

asio::awaitable<Result<void>> Notifier::post(const Notification& notification) {
  const auto url = co_await act::read_secret(aws_, *job_.notify.webhook, one_try);
  if (!url) co_return failure("notify.webhook: " + url.error().detail.str());
  if (const std::string wrong = wire::wrong_webhook(*url); !wrong.empty())
    co_return failure("notify.webhook: " + wrong);
  const Time until = io::now() + whole_post;
  std::string trouble;
  for (std::size_t number = 0;; ++number) {
    io::HttpRequest request;
    request.method = "POST";
    request.url = *url;
    request.headers = {{"Content-Type", "application/json"}};
    request.body = wire::webhook_body(job_.volumes_owner(), notification.words);
    request.timeout = one_try;
    request.response_limit = 64U << 10;
    const auto answer = co_await http_.send(std::move(request));
    const int status = answer ? answer->status : answer.error().status;
    if (status / 100 == 2) co_return Result<void>();
    if (answer)
      trouble = "the web hook answers " + std::to_string(answer->status) + words_of(answer->body);
    else
      trouble = "the web hook does not answer: " + answer.error().message;
    const bool passing = answer ? may_pass(answer->status) : !answer.error().forbidden();
    if (!passing || number == std::size(pauses) || io::now() + pauses[number] >= until)
      co_return failure(trouble);
    co_await io::wait_for(pauses[number]);
  }
}

asio::awaitable<Result<void>> Notifier::publish(const Notification& notification) {
  const std::string job = job_.volumes_owner();
  auto call = aws_.call(
      wire::Publish{job_.notify.topic, "spotter: " + job + ": " + std::string(notification.event),
                    job + ": " + notification.words},
      whole_publish);
  const auto sent = co_await std::move(call);
  if (sent) co_return Result<void>();
  co_return failure("SNS Publish: " + sent.error().message);
}

asio::awaitable<bool> Notifier::drain(Duration at_most) {
  const Time until = io::now() + at_most;
  const auto sends = [this] { return hook_.sending || topic_.sending; };
  while (sends() && io::now() < until) {
    co_await io::wait_for(std::chrono::milliseconds(50));
  }
  co_return !sends();
}

}  // namespace spotter
