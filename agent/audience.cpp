#include "agent/audience.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

namespace spotter {

Audience::Audience(asio::io_context& context, const config::Job& job, const decide::Policy& policy,
                   const std::string& run_directory, Monitor::Sources sources)
    : policy_(policy),
      status_(run_directory + "/status.json", job.name.str()),
      monitor_(context, job, std::move(sources)) {}

void Audience::hear(const wire::TrainerMessage& message, Time now) {
  if (message.window_trained)
    spdlog::info("the trainer went on for {:.1f} s after the notice", *message.window_trained);
  if (message.of_guard) {
    if (message.note) spdlog::warn("{}", *message.note);
    if (message.checkpoint) spdlog::info("{} is durable", message.checkpoint->path);
    return;
  }
  status_.observe(message, now);
  monitor_.hear(message);
}

void Audience::tell(const decide::Event& event, const decide::State& state, std::size_t before) {
  const bool moved = state.stage.index() != before;
  journal_.tell(event, state, policy_, moved);
  status_.update(state, journal_.said(), event.at, moved);
  monitor_.update(event.at, moved);
  const auto notification = occasions_.after(event, before, state, policy_);
  if (notification && notifier_) notifier_->tell(*notification);
}

asio::awaitable<void> Audience::finish() {
  constexpr Duration longest{5'000};
  if (!notifier_) co_return;
  auto draining = notifier_->drain(longest);
  co_await std::move(draining);
}

void Audience::storage_says(std::string words, const decide::State& state, Time now) {
  sd_notifyf(0, "STATUS=%s", words.empty() ? journal_.said().c_str() : words.c_str());
  status_.storage_says(std::move(words));
  status_.update(state, journal_.said(), now, true);
}

}  // namespace spotter
