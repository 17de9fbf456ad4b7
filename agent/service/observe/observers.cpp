#include "agent/service/observe/observers.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include "agent/io/clock.hpp"
#include "agent/io/log.hpp"
#include "agent/supervise/here.hpp"
#include "agent/wire/events.hpp"

namespace spotter {
namespace {

std::optional<std::size_t> index_of(const config::Job& job) {
  return job.experiment ? std::optional(job.experiment->index) : std::nullopt;
}

// Of several machines the one that has the storage, or cannot get on without a person.
bool speaks_for_the_job(const decide::State& state) {
  const decide::Facts& facts = state.facts;
  const auto is = [&](auto stage) { return std::holds_alternative<decltype(stage)>(state.stage); };
  const bool lets_go = is(decide::Unmounting{}) || is(decide::Imaging{}) ||
                       is(decide::Detaching{}) || is(decide::Releasing{}) ||
                       is(decide::ReleasingData{});
  return facts.mounted || facts.trainer_running || lets_go || facts.done || is(decide::Blocked{}) ||
         facts.surrender != decide::Surrender::None;
}

}  // namespace

Observers::Observers(asio::io_context& context, const config::Job& job,
                     const decide::Policy& policy, const std::string& run_directory,
                     Monitor::Sources sources)
    : policy_(policy),
      status_(run_directory + "/status.json", job.name.str()),
      monitor_(context, job, std::move(sources)),
      history_({run_directory, job.volumes_owner(), index_of(job), command::host_name(),
                io::wall_clock() - std::chrono::duration<double>(io::boot_time()).count(),
                io::wall_clock}) {
  const auto place = job.published_at();
  if (!place) return;
  publisher_ = std::make_unique<Publisher>(context, run_directory, *place, history_.file());
  history_.add_sink([this](const wire::Moment& moment) { publisher_->see(moment); });
}

void Observers::hear(const wire::TrainerMessage& message, Time now) {
  history_.hear(message);
  if (message.window_trained)
    spdlog::info("the trainer went on for {:.1f} s after the notice", *message.window_trained);
  if (message.of_guard) {
    if (message.note) spdlog::warn("{}", *message.note);
    if (message.checkpoint) spdlog::info("{} is durable", message.checkpoint->path);
    return;
  }
  if (publisher_) publisher_->hear(message);
  status_.observe(message, now);
  monitor_.hear(message);
}

void Observers::tell(const decide::Event& event, const decide::State& state, std::size_t before) {
  const bool moved = state.stage.index() != before;
  journal_.tell(event, state, policy_, moved);
  status_.update(state, journal_.said(), event.at, moved);
  monitor_.update(event.at, moved);
  if (publisher_) publisher_->speak_for_the_job(speaks_for_the_job(state));
  history_.tell(event, state, policy_, before);
  const auto notification = rules_.after(event, before, state, policy_);
  if (notification && notifier_) notifier_->tell(*notification);
}

asio::awaitable<void> Observers::finish(Duration at_most) {
  if (!notifier_) co_return;
  auto draining = notifier_->drain(at_most);
  if (!co_await std::move(draining))
    io::note(wire::event("notification-failed"), spdlog::level::warn,
             "nobody was told the last news: the agent ends before they are sent");
}

void Observers::leave(const decide::State& state, Duration at_most) {
  history_.leave(state);
  if (publisher_) publisher_->end(at_most);
}

void Observers::storage_says(std::string words, const decide::State& state, Time now) {
  sd_notifyf(0, "STATUS=%s", words.empty() ? journal_.said().c_str() : words.c_str());
  status_.storage_says(std::move(words));
  status_.update(state, journal_.said(), now, true);
}

}  // namespace spotter
