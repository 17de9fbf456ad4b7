#include "agent/service/observe/observers.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <cmath>

#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/watch_mark.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/events.hpp"
#include "agent/wire/metric_log.hpp"
#include "agent/wire/status.hpp"

namespace spotter {
namespace {

constexpr std::size_t limit = 1U << 20;
// A loss may be reported thousands of times a second.
constexpr std::chrono::milliseconds between_writes(200);

}  // namespace

BestValues::BestValues(asio::io_context& context, const config::Job& job, std::string run_directory)
    : path_(std::move(run_directory) + "/" + supervise::values_name), next_(context) {
  if (!job.checkpoints.keep_best) return;
  metric_ = job.checkpoints.keep_best->metric;
  as_in_log_ = wire::name_of_column(*metric_, {});
  const auto text = io::read_file(path_, limit);
  const auto before = text ? supervise::parse_values(*text) : failure("none");
  if (before) values_ = *before;
}

void BestValues::on_message(const wire::TrainerMessage& message,
                            std::chrono::system_clock::time_point now) {
  if (!metric_ || !message.progress) return;
  const wire::Progress& said = *message.progress;
  const wire::CurvePoint point{said.step, said.epoch, said.loss, said.accuracy, 0, said.metrics};
  auto value = wire::metric_of(point, *metric_);
  if (!value) value = wire::metric_of(point, as_in_log_);
  if (!value || !std::isfinite(*value)) return;
  values_.add({std::chrono::duration<double>(now.time_since_epoch()).count(), said.step, *value});
  unwritten_ = true;
  if (waits_) return;
  write();
  waits_ = true;
  next_.expires_after(between_writes);
  next_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    waits_ = false;
    if (unwritten_) write();
  });
}

// What need not survive a power failure: the next run of the trainer has values of its own.
void BestValues::write() {
  const auto done = io::replace_file(path_, to_json(values_), supervise::shown_mode);
  unwritten_ = false;
  const std::string trouble = done ? std::string() : done.error().message();
  if (!trouble.empty() && trouble != last_trouble_)
    spdlog::warn("cannot write {}: {}; the best checkpoint may not be kept", path_, trouble);
  last_trouble_ = trouble;
}

namespace {

constexpr Duration read_every{120'000};  // as a status is published
constexpr Duration read_limit{20'000};

}  // namespace

void WatcherSays::on_event(const decide::State& state, Time now) {
  const decide::Facts& facts = state.facts;
  if (!wanted_ || asking_ || now < next_ || !facts.trainer.running) return;
  if (facts.identity.fleet.kind == FleetKind::None) return;
  asking_ = true;
  next_ = now + read_every;
  asio::co_spawn(context_, ask(facts.identity.fleet), io::rethrow);
}

// What was said before stands while AWS does not answer.
asio::awaitable<void> WatcherSays::ask(Fleet fleet) {
  auto asking = cloud_.watchers_tag(fleet, read_limit);
  const auto tag = co_await std::move(asking);
  asking_ = false;
  if (!tag) co_return;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string words = launch::words_of_watcher(*tag, now);
  say_(words.empty() ? "nobody watches: no on-demand instance comes" : words);
}

namespace {

std::optional<std::size_t> index_of(const config::Job& job) {
  return job.experiment ? std::optional(job.experiment->index) : std::nullopt;
}

// Of several machines, the one that has the storage, or that needs a person.
bool represents_job(const decide::State& state) {
  const decide::Facts& facts = state.facts;
  const auto is = [&](auto stage) { return std::holds_alternative<decltype(stage)>(state.stage); };
  const bool releases = is(decide::Unmounting{}) || is(decide::FinalSnapshot{}) ||
                        is(decide::ReleasingEpoch{}) || is(decide::Detaching{}) ||
                        is(decide::Releasing{}) || is(decide::ReleasingData{});
  return facts.holding.mounted || facts.trainer.running || releases || facts.exit.done ||
         is(decide::Blocked{}) || facts.exit.surrender != decide::Surrender::None;
}

Monitor::Sources with_outlook(Monitor::Sources sources, const Status& status) {
  sources.outlook = [&status] { return status.outlook() ? &*status.outlook() : nullptr; };
  return sources;
}

}  // namespace

Observers::Observers(asio::io_context& context, const config::Job& job,
                     const Result<config::Deadline>& deadline, const decide::Policy& policy,
                     const std::string& run_directory, Monitor::Sources sources)
    : policy_(policy),
      state_(sources.state),
      status_(run_directory + "/status.json", job, deadline.value_or(config::Deadline{})),
      monitor_(context, job, with_outlook(std::move(sources), status_)),
      best_values_(context, job, run_directory),
      history_({run_directory, job.volumes_owner(), index_of(job), command::host_name(),
                io::wall_clock() - std::chrono::duration<double>(io::boot_time()).count(),
                io::wall_clock}) {
  const auto place = job.published_at();
  if (!place) return;
  publisher_ = std::make_unique<Publisher>(context, run_directory, *place, history_.file());
  history_.add_sink([this](const wire::HistoryEntry& entry) { publisher_->on_entry(entry); });
}

void Observers::reach_aws(const Aws& aws) {
  notifier_ = std::make_unique<Notifier>(aws.context, aws.http, aws.client, aws.job);
  watcher_says_ = std::make_unique<WatcherSays>(
      aws.context, aws.cloud, aws.job,
      [this](std::string words) { status_.watcher_says(std::move(words)); });
}

void Observers::on_message(const wire::TrainerMessage& message, Time now) {
  history_.on_message(message);
  if (message.window_trained)
    spdlog::info("the trainer trained for {:.1f} s after the notice", *message.window_trained);
  if (message.of_guard) {
    if (message.note) spdlog::warn("{}", *message.note);
    if (message.best) spdlog::info("{}", *message.best);
    if (message.put_away) status_.put_away(*message.put_away);
    if (message.checkpoint) spdlog::info("{} is durable", message.checkpoint->path);
    return;
  }
  best_values_.on_message(message, std::chrono::system_clock::now());
  if (publisher_) publisher_->on_message(message);
  status_.observe(message, now);
  monitor_.on_message(message);
}

// No event of the core's: whom a gang waits for may be all that happens for long.
void Observers::on_gang(const wire::GangReport& gang, Time now) {
  if (gang.rounds > 0 && gang.rounds != std::exchange(gang_rounds_, gang.rounds)) {
    const wire::Json json = wire::to_json(gang);
    spdlog::info("{}, after {:.1f} s: {}", wire::printable(wire::gang_words(json)), gang.took,
                 wire::printable(wire::gang_reason(json)));
  }
  status_.observe(gang, now);
  monitor_.on_gang(gang, now);
  if (const decide::State* state = state_()) status_.update(*state, journal_.said(), now, false);
}

void Observers::on_event(const decide::Event& event, const decide::State& state,
                         std::size_t before) {
  const bool moved = state.stage.index() != before;
  journal_.on_event(event, state, policy_, moved);
  status_.update(state, journal_.said(), event.at, moved);
  monitor_.update(event.at, moved);
  if (publisher_) publisher_->publish_status(represents_job(state));
  if (watcher_says_) watcher_says_->on_event(state, event.at);
  history_.on_event(event, state, policy_, before);
  if (const auto it = rules_.after(event, before, state, policy_); it && notifier_)
    notifier_->send(*it);
  if (!notifier_ || !represents_job(state) || !status_.outlook()) return;
  if (const auto it = rules_.of_deadline(*status_.outlook())) notifier_->send(*it);
}

asio::awaitable<void> Observers::finish(Duration at_most) {
  if (!notifier_) co_return;
  auto draining = notifier_->drain(at_most);
  if (!co_await std::move(draining))
    io::note(wire::event("notification-failed"), spdlog::level::warn,
             "notifications are lost: the agent ends before they are sent");
}

void Observers::on_end(const decide::State& state, Duration at_most) {
  history_.on_end(state);
  if (publisher_) publisher_->end(at_most);
}

void Observers::storage_says(std::string words, const decide::State& state, Time now) {
  sd_notifyf(0, "STATUS=%s", words.empty() ? journal_.said().c_str() : words.c_str());
  status_.storage_says(std::move(words));
  status_.update(state, journal_.said(), now, true);
}

}  // namespace spotter
