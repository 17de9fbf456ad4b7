#include "agent/service/observe/status.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/decide/describe.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/log.hpp"
#include "agent/service/act/metrics.hpp"
#include "agent/wire/status.hpp"

namespace spotter {
namespace {

using nlohmann::json;

constexpr Duration kEvery{200};

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json step_or_null(std::int64_t step) { return step < 0 ? json() : json(step); }

// The last word is how the job ended, also while the agent leaves its machine.
std::string_view stage_of(const decide::State& state) {
  const auto& exit = state.facts.exit;
  if (std::holds_alternative<decide::Leaving>(state.stage)) {
    if (exit.done) return decide::name(decide::Finished{});
    if (exit.surrender != decide::Surrender::None) return decide::name(decide::GaveUp{});
  }
  return decide::name(state.stage);
}

json milliseconds(Time at) {
  return at == decide::kNever ? json() : json(at.time_since_epoch().count());
}

// Seconds since 1970, for readers on other machines.
json wall(Time at, Time now) {
  if (at == decide::kNever) return {};
  const auto real = std::chrono::system_clock::now() + (at - now);
  return std::chrono::duration<double>(real.time_since_epoch()).count();
}

json problems(Time now) {
  json list = json::array();
  for (const io::Problem& it : io::recent_problems())
    list.push_back({{"boottime_ms", it.at.count()},
                    {"time", wall(Time(it.at), now)},
                    {"event", it.event},
                    {"words", it.words}});
  return list;
}

double unix_seconds(wire::WallTime at) {
  return static_cast<double>(at.time_since_epoch().count());
}

void add_outlook(json& status, const launch::OwnOutlook& it) {
  status["outlook"] = launch::text_of(it);
  status["finish_by"] = it.due ? json(unix_seconds(*it.due)) : json();
  status["work_left_seconds"] = it.work ? json(it.work->hours * 3600) : json();
  status["on_demand_by"] = it.latest ? json(unix_seconds(*it.latest)) : json();
  status["deadline_trouble"] = launch::words_of(it.trouble);
}

void add_bucket(json& status, const decide::Facts::Home& home) {
  status["bucket_step"] = step_or_null(home.kept_step);
  if (home.upload <= Duration(0)) return;
  status["upload_bytes"] = home.upload_bytes;
  status["upload_seconds"] = std::chrono::duration<double>(home.upload).count();
}

}  // namespace

void Status::observe(const wire::TrainerMessage& message, Time now) {
  if (message.resumed_step) progress_.metrics.clear();  // they may be of steps that are repeated
  if (message.progress) {
    act::take(progress_, *message.progress);
    pace_.observe(progress_.step, now);
  }
  if (message.status) trainer_says_ = *message.status;
  if (message.window_trained) window_trained_ = message.window_trained;
}

// Before the trainer has said its step, what is left is not known.
void Status::look_ahead(const decide::Facts& facts) {
  outlook_.reset();
  if (facts.exit.done) return;
  const decide::Ledger& ledger = facts.progress.ledger;
  std::optional<launch::Progress> progress;
  if (facts.trainer.running && facts.trainer.step >= 0)
    progress = {.step = std::max(0.0, static_cast<double>(facts.progress.checkpoint_step)),
                .total = static_cast<double>(progress_.steps_total.value_or(0)),
                .repeated = static_cast<double>(ledger.repeated),
                .trained = ledger.trained / 3600,
                .steps_an_hour = pace_.per_second().value_or(0) * 3600,
                .dollars = ledger.dollars};
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  outlook_ = launch::own_outlook(job_, progress, facts.identity.dollars_per_hour, now);
}

void Status::update(const decide::State& state, const std::string& says, Time now,
                    bool stage_changed) {
  if (!stage_changed && now - written_ < kEvery) return;
  written_ = now;
  const decide::Facts& facts = state.facts;
  json status = {{"version", wire::status_version},
                 {"spotter", SPOTTER_VERSION},
                 {"job", job_.name.str()},
                 {"stage", stage_of(state)},
                 {"says", says},
                 {"instance", facts.identity.instance.view()},
                 {"type", facts.identity.type.view()},
                 {"zone", facts.identity.zone.view()},
                 {"volume", facts.holding.volume.view()},
                 {"step", step_or_null(facts.trainer.step)},
                 {"steps_total", or_null(progress_.steps_total)},
                 {"epoch", or_null(progress_.epoch)},
                 {"epochs_total", or_null(progress_.epochs_total)},
                 {"loss", or_null(progress_.loss)},
                 {"accuracy", or_null(progress_.accuracy)},
                 {"metrics", progress_.metrics},
                 {"trainer_says", trainer_says_},
                 {"resumed_step", step_or_null(facts.trainer.resumed_step)},
                 {"checkpoint_step", step_or_null(facts.progress.checkpoint_step)},
                 {"checkpoint_counts", facts.progress.counts_writes ? "writes" : "steps"},
                 {"checkpoint_boottime_ms", milliseconds(facts.trainer.checkpoint_at)},
                 {"checkpoint_time", wall(facts.trainer.checkpoint_at, now)},
                 {"steps_per_second", or_null(pace_.per_second())},
                 {"wake_boottime_ms", milliseconds(state.wake_at)},
                 {"wake", wall(state.wake_at, now)},
                 {"trained_seconds", facts.progress.ledger.trained},
                 {"spent_seconds", facts.progress.ledger.seconds},
                 {"spent_dollars", facts.progress.ledger.dollars},
                 {"interruptions", decide::interruptions(facts.progress.ledger)},
                 {"steps_repeated", facts.progress.ledger.repeated},
                 {"problems", problems(now)},
                 {"attempts_without_progress", facts.progress.ledger.attempts_without_progress},
                 {"released", std::holds_alternative<decide::Released>(state.stage)},
                 {"updated_boottime_ms", now.time_since_epoch().count()},
                 {"updated", wall(now, now)}};
  if (facts.exit.notice) {
    status["notice_deadline_ms"] = facts.exit.notice->deadline.time_since_epoch().count();
    status["deadline"] = wall(facts.exit.notice->deadline, now);
  }
  if (const auto* gang = gang_.current(facts, now)) {
    status["gang"] = wire::to_json(*gang);
    if (gang->rounds > 0) status["gang"]["round_boottime_ms"] = milliseconds(gang_.round_at());
  }
  if (job_.storage.in_bucket()) add_bucket(status, facts.home);
  look_ahead(facts);
  if (outlook_) add_outlook(status, *outlook_);
  for (const auto& [key, words] : said_)
    if (!words.empty()) status[key] = words;
  if (facts.trainer.running && warmth_.read < warmth_.total) {
    status["volume_read_bytes"] = warmth_.read;
    status["volume_total_bytes"] = warmth_.total;
  }
  if (window_trained_) status["window_trained_seconds"] = *window_trained_;
  if (const auto* blocked = std::get_if<decide::Blocked>(&state.stage)) {
    status["blocked"] = decide::words(blocked->why);
    status["detail"] = blocked->detail.view();
  }
  // Texts of a trainer, and paths, need not be UTF-8.
  (void)io::replace_file(path_, wire::json_text(status, 2) + "\n");
}

void write_worker_status(const std::string& path, const WorkerStatus& worker) {
  const auto now = io::boot_time();
  json status = {{"version", wire::status_version},
                 {"job", worker.job},
                 {"stage", "sharing"},
                 {"worker_says", worker.words},
                 {"run_directory", worker.run_directory},
                 {"updated_boottime_ms", now.count()}};
  if (!worker.trouble.empty()) status["claims_say"] = worker.trouble;
  (void)io::replace_file(path, wire::json_text(status, 2) + "\n");
}

}  // namespace spotter
