#include "agent/service/observe/history.hpp"

#include <algorithm>

#include "agent/decide/describe.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/log.hpp"

namespace spotter {
namespace {

using decide::Command;
using decide::ReleaseGoal;
using decide::Wait;
using nlohmann::json;

constexpr double between_checkpoints = 600;  // seconds
constexpr double between_ledgers = 3600;
constexpr double said_again = 600;       // repeats a problem that stays
constexpr std::size_t most_held = 64;    // for a machine that never learns its id
constexpr std::size_t most_words = 400;  // of a problem
constexpr std::size_t most_problems = 32;

json step_or_null(std::int64_t step) { return step < 0 ? json() : json(step); }

json text_or_null(std::string_view text) { return text.empty() ? json() : json(text); }

// False after the clock was set back, so that nothing is delayed by that.
bool is_within(double from, double now, double seconds) {
  return now >= from && now - from < seconds;
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string_view phase_before(ReleaseGoal then) {
  if (then == ReleaseGoal::Finish) return "finishing";
  return then == ReleaseGoal::Survey ? "moving" : "releasing";
}

template <class Stage, class... Any>
constexpr bool is_one_of = (std::is_same_v<Stage, Any> || ...);

// A stage that has no line here, and ends with no other one, does not compile.
template <class Stage>
std::string_view phase_of_stage(const Stage& stage, const decide::Facts& facts) {
  using namespace decide;
  const std::string_view bringing_up =
      facts.holding.purpose == Purpose::Verify ? "moving" : "mounting";
  if constexpr (is_one_of<Stage, Surveying, Discarding, Leaving>)
    return {};
  else if constexpr (is_one_of<Stage, Booting, LookingAround, Identifying, ReadingFleet>)
    return "looking";
  else if constexpr (is_one_of<Stage, Waiting>)
    return stage.why == Wait::SnapshotPending || stage.why == Wait::CommitSettling ? "moving"
           : stage.why == Wait::VolumeChanging                                     ? ""
                                                                                   : "waiting";
  else if constexpr (is_one_of<Stage, Blocked>)
    return "blocked";
  else if constexpr (is_one_of<Stage, Attaching, Claiming, FindingDevice, Inspecting, Formatting,
                               Mounting, ReadingLedger, Verifying>)
    return bringing_up;
  else if constexpr (is_one_of<Stage, Preparing>)
    return "mounting";
  else if constexpr (is_one_of<Stage, Snapshotting, CreatingCandidate, MarkingVerified, Committing,
                               Promoting>)
    return "moving";
  else if constexpr (is_one_of<Stage, WritingEpoch>)
    return stage.epoch.state == Epoch::State::Moving ? "moving" : bringing_up;
  else if constexpr (is_one_of<Stage, AwaitingGpus, PreparingData, CountingAttempt, FetchingCode,
                               StartingTrainer, Filling, MarkingPrepared>)
    return "preparing";
  else if constexpr (is_one_of<Stage, Training>)
    return "training";
  else if constexpr (is_one_of<Stage, Stopping>)
    return "stopping";
  else if constexpr (is_one_of<Stage, Securing, SendingResult, MarkingDone, Tidying>)
    return "finishing";
  else if constexpr (is_one_of<Stage, CancellingFleet>)
    return facts.exit.surrender == Surrender::None ? "finishing" : "releasing";
  else if constexpr (is_one_of<Stage, GivingBack, ScalingToZero>)
    return "releasing";
  else if constexpr (is_one_of<Stage, Released>)
    return "released";
  else if constexpr (is_one_of<Stage, Finished>)
    return "finished";
  else if constexpr (is_one_of<Stage, GaveUp>)
    return "gave-up";
  else
    return phase_before(stage.then);
}

json change(const char* what, std::string_view volume, std::string_view snapshot = {}) {
  return {{"change", what}, {"volume", text_or_null(volume)}, {"snapshot", text_or_null(snapshot)}};
}

// The change of a volume by this command, once it is carried out.
json change_by(const Command& command) {
  if (const auto* it = std::get_if<decide::AttachVolume>(&command))
    return change("attached", it->volume.view());
  if (const auto* it = std::get_if<decide::DetachVolume>(&command))
    return change("detached", it->volume.view());
  if (const auto* it = std::get_if<decide::CreateSnapshot>(&command))
    return change("snapshot", it->volume.view());
  if (const auto* it = std::get_if<decide::CreateVolume>(&command))
    return change("copy", {}, it->snapshot.view());
  if (const auto* it = std::get_if<decide::MarkVerified>(&command))
    return change("verified", it->volume.view());
  if (const auto* it = std::get_if<decide::PromoteVolume>(&command))
    return change("promoted", it->volume.view());
  if (const auto* it = std::get_if<decide::DeleteVolume>(&command))
    return change("deleted", it->volume.view());
  if (const auto* it = std::get_if<decide::DeleteSnapshot>(&command))
    return change("deleted", {}, it->snapshot.view());
  return {};
}

// The phase of the job to which a stage belongs; empty: the stage is only a look in between, and
// the phase stays.
std::string_view phase_of(const decide::State& state) {
  return std::visit([&](const auto& stage) { return phase_of_stage(stage, state.facts); },
                    state.stage);
}

}  // namespace

History::History(Settings settings)
    : settings_(std::move(settings)),
      file_(settings_.run_directory),
      began_(settings_.clock()),
      problems_until_(io::boot_time()) {}

void History::add(std::string what, Fields fields) {
  wire::HistoryEntry entry{settings_.clock(), std::move(what), instance_, std::move(fields)};
  if (named_) return give(std::move(entry));
  if (held_.size() < most_held) held_.push_back(std::move(entry));
}

void History::give(wire::HistoryEntry entry) {
  entry.instance = instance_;
  file_.append(entry);
  for (const Sink& sink : sinks_) sink(entry);
}

// Every line names its machine, so lines wait until the name is known. On a share it may stay
// unknown: `settled` says that the agent went on without it.
void History::learn_name(const decide::Facts& facts, bool settled) {
  if (named_ || (facts.identity.instance.empty() && !settled)) return;
  named_ = true;
  instance_ = facts.identity.instance.empty() ? settings_.host : facts.identity.instance.str();
  type_ = facts.identity.type.view();
  zone_ = facts.identity.zone.view();
  wire::HistoryEntry began = beginning(began_);
  const auto earlier = file_.open(began);
  go_on_after(earlier);
  if (earlier.empty())
    for (const Sink& sink : sinks_) sink(began);
  else if (earlier.back().what == "left")
    give(std::move(began));
  for (wire::HistoryEntry& entry : std::exchange(held_, {})) give(std::move(entry));
}

void History::on_launched(double time) {
  if (time <= settings_.clock()) settings_.booted = std::max(settings_.booted, time);
}

wire::HistoryEntry History::beginning(double time) const {
  wire::HistoryEntry began{time, "began", instance_, {}};
  began.fields = {{"job", settings_.job},
                  {"type", text_or_null(type_)},
                  {"zone", text_or_null(zone_)},
                  {"booted", settings_.booted}};
  if (settings_.experiment) began.fields["experiment"] = *settings_.experiment;
  return began;
}

void History::go_on_after(const std::vector<wire::HistoryEntry>& earlier) {
  for (const wire::HistoryEntry& entry : earlier) {
    if (entry.what == "notice") notice_until_ = entry.number("deadline").value_or(0);
    if (entry.what == "price") price_ = entry.number("dollars_per_hour").value_or(0);
    if (entry.what == "checkpoint") checkpoint_recorded_ = entry.time;
    if (entry.what == "account") ledger_recorded_ = entry.time;
    if (entry.what == "ended") running_ = false;
    if (entry.what != "phase" || entry.text("phase") != "training" || running_) continue;
    running_ = true;
    run_began_ = entry.time;
  }
}

void History::on_effect(const decide::Effect& effect) {
  if (std::holds_alternative<decide::KillTrainer>(effect.what)) killed_ = true;
  json fields = change_by(effect.what);
  if (!fields.is_null()) asked_[effect.id.number] = std::move(fields);
}

void History::on_message(const wire::TrainerMessage& message) {
  if (message.window_trained) window_trained_ = message.window_trained;
  if (message.checkpoint) checkpoint_bytes_ = message.checkpoint->bytes;
}

void History::on_event(const decide::Event& event, const decide::State& state,
                       const decide::Policy& policy, std::size_t before) {
  const std::string_view phase = phase_of(state);
  const bool settled = !phase.empty() && phase != "looking" && phase != "waiting" &&
                       phase != "blocked" && phase != "stopping";
  learn_name(state.facts, settled);
  settle_change(event, state.facts);
  record_happening(event, state);
  const bool moved = state.stage.index() != before;
  // The machine woke from hibernation, or was spared: begins another boot.
  if (moved && named_ && phase_ == "released" && phase == "looking")
    give(beginning(settings_.clock()));
  if (moved) record_phase(state, policy);
  if (state.facts.progress.ledger_known) {
    const bool closing = std::holds_alternative<decide::ClosingLedger>(state.stage);
    // The requests of the last write to a bucket are not in that write; elsewhere they are read.
    const bool closes = closing && (moved || std::holds_alternative<decide::HomeKept>(event.what));
    if (closes || !is_within(ledger_recorded_, settings_.clock(), between_ledgers))
      record_ledger(state.facts.progress.ledger);
    repeated_ = state.facts.progress.ledger.repeated;
  }
  record_problems();
}

void History::settle_change(const decide::Event& event, const decide::Facts& facts) {
  const auto asked = event.effect ? asked_.find(event.effect.number) : asked_.end();
  if (asked == asked_.end()) return;
  json fields = std::move(asked->second);
  asked_.erase(asked);
  if (const auto* snapshot = std::get_if<decide::SnapshotStarted>(&event.what))
    fields["snapshot"] = snapshot->snapshot.view();
  else if (const auto* copy = std::get_if<decide::VolumeCreated>(&event.what))
    fields["volume"] = copy->volume.view();
  else if (!std::holds_alternative<decide::CallAccepted>(event.what))
    return;
  fields["zone"] = text_or_null(facts.identity.zone.view());
  add("volume", std::move(fields));
}

void History::record_happening(const decide::Event& event, const decide::State& state) {
  const decide::Facts& facts = state.facts;
  if (const auto* notice = std::get_if<decide::NoticeSeen>(&event.what)) {
    record_notice(*notice, event.at);
  } else if (std::holds_alternative<decide::NoticeWithdrawn>(event.what)) {
    notice_until_ = 0;
    add("notice-withdrawn");
  } else if (std::holds_alternative<decide::RebalanceRecommended>(event.what)) {
    add("rebalance");
  } else if (const auto* resumed = std::get_if<decide::TrainerResumed>(&event.what)) {
    const bool counted = facts.progress.ledger_known && facts.progress.ledger.repeated >= repeated_;
    add("resumed",
        {{"step", resumed->step},
         {"repeated", counted ? json(facts.progress.ledger.repeated - repeated_) : json()}});
  } else if (const auto* made = std::get_if<decide::CheckpointMade>(&event.what)) {
    record_checkpoint(*made, facts);
  } else if (const auto* ended = std::get_if<decide::TrainerEnded>(&event.what)) {
    record_end(*ended, facts);
  } else if (const auto* seen = std::get_if<decide::HostLooked>(&event.what)) {
    if (running_ && seen->trainer == decide::HostLooked::Trainer::Ended)
      record_end(seen->ended, facts);
  }
  if (facts.identity.dollars_per_hour <= 0 || facts.identity.dollars_per_hour == price_) return;
  price_ = facts.identity.dollars_per_hour;
  add("price", {{"dollars_per_hour", price_}});
}

void History::record_notice(const decide::NoticeSeen& notice, Time at) {
  const double deadline = settings_.clock() + seconds(notice.deadline - at);
  constexpr double same = 2;
  if (notice_until_ != 0 && std::abs(deadline - notice_until_) < same) return;
  notice_until_ = deadline;
  add("notice",
      {{"action", notice.held ? "group" : to_text(notice.action)}, {"deadline", deadline}});
}

void History::record_checkpoint(const decide::CheckpointMade& made, const decide::Facts& facts) {
  const json bytes = checkpoint_bytes_ ? json(*checkpoint_bytes_) : json();
  ++checkpoints_;
  bytes_ += std::exchange(checkpoint_bytes_, {}).value_or(0);
  stall_ += seconds(made.stall);
  const double now = settings_.clock();
  if (!facts.exit.notice && checkpoints_ > 1 &&
      is_within(checkpoint_recorded_, now, between_checkpoints))
    return;
  checkpoint_recorded_ = now;
  add("checkpoint", {{"step", made.step},
                     {"seconds", made.stall.count() > 0 ? json(seconds(made.stall)) : json()},
                     {"bytes", bytes}});
}

void History::record_end(const decide::TrainerEnded& ended, const decide::Facts& facts) {
  const char* failed = killed_ ? "killed" : "failed";
  const char* other = ended.stopped_as_asked && !killed_ ? "stopped" : failed;
  // Also of an experiment that the sweep's rule has stopped early.
  const bool finished = ended.success || facts.exit.done;
  json fields = {{"end", finished ? "finished" : other},
                 {"step", step_or_null(facts.trainer.step)},
                 {"checkpoint_step", step_or_null(facts.progress.checkpoint_step)},
                 {"checkpoints", checkpoints_},
                 {"bytes", bytes_ > 0 ? json(bytes_) : json()},
                 {"stall_seconds", stall_}};
  if (running_) fields["trained_seconds"] = std::max(0.0, settings_.clock() - run_began_);
  if (window_trained_) fields["window_trained"] = *window_trained_;
  add("ended", std::move(fields));
  running_ = killed_ = false;
}

void History::record_phase(const decide::State& state, const decide::Policy& policy) {
  const std::string_view phase = phase_of(state);
  if (phase.empty() || phase == phase_) return;
  phase_ = phase;
  if (phase == "training" && !std::exchange(running_, true)) {
    run_began_ = settings_.clock();
    stall_ = 0;
    checkpoints_ = 0;
    bytes_ = 0;
    killed_ = false;
    window_trained_.reset();
  }
  add("phase", {{"phase", phase}, {"says", text_or_null(decide::describe(state, policy))}});
}

void History::record_ledger(const decide::Ledger& ledger) {
  ledger_recorded_ = settings_.clock();
  Fields account = {{"seconds", ledger.seconds},
                    {"dollars", ledger.dollars},
                    {"losses", ledger.losses},
                    {"releases", ledger.releases},
                    {"repeated", ledger.repeated}};
  if (ledger.s3_writes + ledger.s3_reads > 0) {
    account["s3_writes"] = ledger.s3_writes;
    account["s3_reads"] = ledger.s3_reads;
  }
  add("account", std::move(account));
}

// Records a repeated problem only now and then.
void History::record_problems() {
  for (const io::Problem& problem : io::recent_problems()) {
    if (problem.at <= problems_until_) continue;
    problems_until_ = problem.at;
    const double now = settings_.clock();
    std::erase_if(problems_recorded_,
                  [&](const auto& recorded) { return now - recorded.second > said_again; });
    const std::string words = problem.words.substr(0, most_words);
    if (problems_recorded_.size() >= most_problems ||
        !problems_recorded_.emplace(words, now).second)
      continue;
    add("problem", {{"event", text_or_null(problem.event)},
                    {"level", problem.error ? "error" : "warning"},
                    {"words", words}});
  }
}

void History::on_end(const decide::State& state) {
  learn_name(state.facts, true);
  const std::string_view phase = phase_of(state);
  const bool over = phase == "released" || phase == "finished" || phase == "gave-up";
  // `spotter run` leaves from no such stage.
  const bool gave_up = state.facts.exit.surrender != decide::Surrender::None;
  const std::string_view other = gave_up ? "gave-up" : "asked";
  add("left", {{"why", over ? phase : other}});
}

}  // namespace spotter
