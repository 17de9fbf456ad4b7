// The table of contents of decide/: each stage and the events that it handles. A pair that is not
// here reaches ignored(); tests/decide/transitions.txt shows every pair.
#pragma once

#include "agent/decide/effect.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter::decide {

using Next = std::optional<Stage>;  // nullopt: the stage stays

// Everything that a transition may touch.
struct Context {
  State& state;
  Facts& facts;
  const Policy& policy;
  Time now;
  Effects& effects;
  std::optional<Time> wake;

  // Asks, and awaits the answer: the next stage depends on it.
  void ask(Command command, Duration limit) { state.awaited = issue(std::move(command), limit); }
  // Asks without waiting: the answer will be ignored.
  EffectId issue(Command command, Duration limit) {
    const EffectId id{state.incarnation, ++state.effects_made};
    effects.push_back({id, now + limit, std::move(command)});
    return id;
  }
  void wake_at(Time time) { wake = time; }
  void wake_in(Duration duration) { wake = now + duration; }
};

inline Next ignored() { return std::nullopt; }

// --- shared beginnings of a stage; each asks what the stage awaits ---
Stage identify(Context&, std::uint32_t failures);       // identity.cpp
bool fleet_decides(const Context&);                     // identity.cpp: which machine writes
void remember_identity(Context&, const IdentityRead&);  // identity.cpp
Stage survey(Context&);                                 // storage.cpp
Stage read_ledger(Context&);                            // storage.cpp
Duration ledger_limit(const Context&);  // share.cpp: what reading or writing it is worth
void ask_for_fleet(Context&);           // identity.cpp
Stage read_fleet(Context&, std::uint32_t failures);  // identity.cpp
void remember_fleet(Context&, const FleetRead&);     // identity.cpp; known or not yet
// Both kinds of storage: to make it ready here, and to release it.
Stage prepare(Context&);               // share.cpp
Stage release(Context&, ReleaseGoal);  // share.cpp; REQUIRES: in use here
// A folder here that nothing is attached for.
inline bool on_share(const Context& c) { return c.policy.storage != StorageKind::Volume; }
// --- share.cpp ---
inline bool in_bucket(const Context& c) { return c.policy.storage == StorageKind::Bucket; }
Stage take_home(const Survey&, Context&);
Stage enter_home(Context&);
Next watch_home(const Training&, const Survey&, Context&);  // of an adopted trainer
Stage mark_home_done(Context&);
std::optional<Stage> release_home(Context&, ReleaseGoal);
std::optional<Stage> write_released(Context&, ReleaseGoal,
                                    std::uint32_t share_of_notice);  // fence.cpp
// The home is another's, or S3 does not answer: what becomes of the stage that wanted it kept.
Stage home_failed(Context&, const EffectFailed&);
Stage lose_home(Context&);  // stops what is done here, and looks again
void keep_home(Context&);
void remember_kept(Context&, const HomeKept&);
// When this machine ends, or this process is to: kNever: nobody has said.
Time leaves_by(const Context&);
WriteLedger ledger_to_write(Context&);
Duration upload_needs(const Context&);  // of a checkpoint that a trainer makes now
void limit_keeping(Context&);  // before a deadline: wakes when a write under way is to be ended
void hurry_keeping(Context&);  // the same, where the stage waits for one
void end_keeping(Context&);
// Files that this machine had before it took the home again are brought up, and sent, also after a
// notice.
bool brings_newer(const Context&);
void limit_bringing(Context&);  // before a deadline: wakes when that is to be given up
void end_bringing(Context&);
std::optional<Stage> bring_newer(Context&,
                                 ReleaseGoal);  // before the release; none: nothing is newer
bool reads_again(const Context&, const EffectFailed&);
Stage unmount(Context&, ReleaseGoal, std::uint32_t tries = 0);  // release.cpp
Unmount unmount_of(const Context&);                             // release.cpp
// From then on nobody commits a copy who has not seen our claim: not even by a look that was begun
// just before all could see it. REQUIRES: claimed.
inline Time claim_known_at(const Context& c) {
  return c.facts.holding.claimed_at + c.policy.consistency_bound + 2 * c.policy.commit_call;
}
Stage next_release_step(Context&, ReleaseGoal);           // release.cpp
Stage wait(Context&, Wait why, Duration how_long);        // storage.cpp
Stage retry_later(Context&, const EffectFailed&);         // storage.cpp
Stage call_failed(Context&, const EffectFailed&);         // storage.cpp
Duration backoff(const Policy&, std::uint32_t failures);  // storage.cpp
Stage block(Context&, Block why, const Detail& detail);   // storage.cpp
Stage attach(Context&, const VolumeId&, Purpose);         // storage.cpp
Stage reattach(Context&, Block when_in_vain);             // storage.cpp
Stage bring_up(Context&);                                 // storage.cpp
Next plan(const Survey&, Context&);                       // plan.cpp
// The same, but a change that EC2 took many times and does not show is not made again at once.
Next plan_spaced(const Survey&, Context&);  // plan.cpp
void count_taken(State&, const Event&);     // plan.cpp: what was asked for so
const SeenVolume* elect(const Survey&);     // storage.cpp; nullptr: none
Stage recover(const Survey&, const Survey& everything, Context&);  // storage.cpp
// The time to wait yet, while no volume is current, for a commit to be seen; it counts from the
// first time that it is asked for this candidate (empty: none).
Duration commit_settles_in(const VolumeId& elected, Context&);  // storage.cpp
// The job's volume, when it is marked as done or is `finished`. nullptr also when a commit has put
// another in its place.
const SeenVolume* done_volume(const Survey&, const VolumeId& finished);  // plan.cpp
const SeenVolume* current_volume(const Survey&);                         // plan.cpp; nullptr: none
// Only what is of the line, or was made of `current` before copies had the tag.
Survey of_line(const Survey&, const VolumeId& line, const VolumeId& current);
// An agent that adopted its trainer does not know its line before the first look. True: it does
// only now, and the epoch that was read may be that of another volume with the tag.
bool learn_line(const Survey&, Context&);  // migrate.cpp
// Called while no volume is current. Sets `line`, unless it is one of those found, to the line of
// the verified copies or else of the snapshots. More than one: their names, for a person to choose.
Detail lines_left(const Survey&, VolumeId& line);
// --- migrate.cpp ---
std::optional<Command> leftover(const Survey&, const VolumeId& ours, const InstanceId& idle,
                                bool keep_newest);
bool held_by_stopped(const SeenVolume&);
// A volume that another instance has: waited for, or detached when that is known to be stopped.
Stage held_by_other(const SeenVolume&, Context&);  // plan.cpp
// The volume that EC2 says is attached to us, if it is not `except`.
const SeenVolume* other_attached_here(const Survey&, const Facts&,
                                      const VolumeId& except);  // plan.cpp
// Releases a volume that is attached here, and then looks again.
Stage drop(const SeenVolume&, Context&);  // plan.cpp
// EC2's view, with facts that are known for sure in the place of what may be old: which volume is
// the job's by the epoch, or by this session's own commit.
Survey as_known(const Survey&, const Context&);  // migrate.cpp
Survey as_fenced(const Survey&);                 // fence.cpp
// The stage that comes before the job's volume may be used or copied. None: this session may.
// `current` nullptr: EC2 shows none.
Next take_epoch(const Survey&, const SeenVolume* current, Context&);  // fence.cpp
// No fence that the volumes' tags name is passed over.
Next check_fence(const Survey&, Context&);  // fence.cpp
// The verified copy becomes the job's volume.
Stage commit_by_epoch(const Survey&, const SeenVolume& candidate, Context&);  // fence.cpp
std::optional<Stage> release_epoch(Context&, ReleaseGoal);                    // fence.cpp
std::optional<Command> forget_left(const Survey&);  // fence.cpp: the original of the last move
// None: it is written, or not ours to write.
std::optional<Command> epoch_of_the_end(const Survey&, const Facts&);  // fence.cpp
bool job_is_over(ReleaseGoal);                                         // release.cpp
// The next change toward a verified candidate. `lost`: the parent is deleted, and any snapshot of
// it is better than none.
Stage advance_candidate(const Survey&, const VolumeId& parent, std::uint32_t generation, bool lost,
                        Context&);
Stage prepare_training(Context&);  // preparing.cpp
Stage prepare_data(Context&);      // preparing.cpp; then the code
Stage release_data(Context&, ReleaseGoal, std::uint32_t failures = 0);  // preparing.cpp
std::optional<Command> data_left_over(const Survey&, const Facts&);  // preparing.cpp: to be removed
Detail data_in_use(const Survey&);                  // preparing.cpp: by other instances
Stage give_back(Context&, std::uint32_t failures);  // preparing.cpp
Stage outlast(Context&, const EffectFailed&);       // preparing.cpp: processes that a trainer left
Stage leave_gang(Context&);                         // preparing.cpp: and be given back
bool hinders_gang(const Context&);  // preparing.cpp: so its gang has said, and another one follows
bool is_replaced(const Context&);   // preparing.cpp: by a fleet, once this process has ended it
Stage fetch_code(Context&);         // preparing.cpp
std::optional<Surrender> overspent(const Context&);  // preparing.cpp: hours, dollars
Stage fill(Context&);                                // preparing.cpp
std::optional<Detail> in_use(const Survey&, const SeenVolume&, const Context&);  // preparing.cpp
// migrate.cpp: is a move under way; may a move copy it; in which generation was it used last.
std::optional<Detail> copy_of(const Survey&, const VolumeId&);
bool is_of_the_whole(const SeenSnapshot&, const Policy&);
std::uint32_t used_generation(const SeenVolume&, const Survey&);
Stage train(Context&);          // training.cpp
void count_spending(Context&);  // training.cpp: time and money so far
void reset_failures(Context&);  // training.cpp: there is progress
// training.cpp: it could not be read when this agent adopted the trainer
void learn_ledger(Context&, const LedgerRead&);
void learn_others(Context&, const LedgerRead&);
Stage give_up(Context&, Surrender);                 // training.cpp
Next trainer_ended(Context&, const TrainerEnded&);  // training.cpp
Stage release_storage(Context&, ReleaseGoal);       // release.cpp
Next leaves_unfinished(Context&);                   // release.cpp: the same of a job that has ended
Next leaving(Context&);                             // release.cpp: after a notice or StopRequested
Stage settle(Context&, ReleaseGoal);                // release.cpp: all is released; what now?
Stage tidy_up(Context&);                            // finish.cpp
Stage ask_end(Context&, const CancellingFleet&);    // finish.cpp
Stage ask_end(Context&, const ScalingToZero&);      // finish.cpp
Next end_in_vain(Context&, std::uint32_t failures, Stage last);  // finish.cpp; none: asks again
bool leaves_gang_alone(const Facts&, const Policy&);  // finish.cpp: its fleet is not scaled to 0
Stage rest(Context&, Stage last);                     // finish.cpp: unless asked to leave
// Is there a fleet to end? There may be one until EC2 has said which.
inline bool has_fleet(const Context& c) {
  if (c.policy.foreground) return false;
  return !c.facts.identity.fleet_known || c.facts.identity.fleet.kind != FleetKind::None;
}
Stage hold(Context&);  // finish.cpp: for a person, within a limit
Stage stop_trainer(Context&, ReleaseGoal, InterruptionAction, Time deadline);  // training.cpp

// --- identity.cpp ---
Next on(const Booting&, const Started&, Context&);
Next on(const LookingAround&, const HostLooked&, Context&);
Next on(const LookingAround&, const EffectFailed&, Context&);
Next on(const LookingAround&, const Woke&, Context&);
Next on(const Identifying&, const IdentityRead&, Context&);
Next on(const Identifying&, const EffectFailed&, Context&);
Next on(const Identifying&, const Woke&, Context&);
Next on(const ReadingFleet&, const FleetRead&, Context&);
Next on(const ReadingFleet&, const EffectFailed&, Context&);
Next on(const ReadingFleet&, const Woke&, Context&);
// --- storage.cpp ---
Next on(const Surveying&, const StorageSurveyed&, Context&);
Next on(const Waiting&, const Woke&, Context&);
Next on(const Blocked&, const Woke&, Context&);
Next on(const Attaching&, const CallAccepted&, Context&);
Next on(const Attaching&, const EffectFailed&, Context&);
Next on(const Claiming&, const CallAccepted&, Context&);
Next on(const FindingDevice&, const DeviceFound&, Context&);
Next on(const FindingDevice&, const EffectFailed&, Context&);
Next on(const Inspecting&, const DiskInspected&, Context&);
Next on(const Inspecting&, const EffectFailed&, Context&);
Next on(const Formatting&, const FilesystemMade&, Context&);
Next on(const Formatting&, const EffectFailed&, Context&);
Next on(const Mounting&, const Mounted&, Context&);
Next on(const Mounting&, const EffectFailed&, Context&);
Next on(const ReadingLedger&, const LedgerRead&, Context&);
Next on(const ReadingLedger&, const EffectFailed&, Context&);
Next on(const ReadingLedger&, const Woke&, Context&);
Next on(const Verifying&, const CheckpointsVerified&, Context&);
Next on(const Verifying&, const EffectFailed&, Context&);
// --- share.cpp ---
Next on(const Preparing&, const Mounted&, Context&);
Next on(const Preparing&, const EffectFailed&, Context&);
Next on(const Preparing&, const Woke&, Context&);
Next on(const Releasing&, const NoticeSeen&, Context&);
Next on(const Releasing&, const Unmounted&, Context&);
Next on(const Releasing&, const EffectFailed&, Context&);
// --- migrate.cpp ---
Next on(const Snapshotting&, const SnapshotStarted&, Context&);
Next on(const Snapshotting&, const EffectFailed&, Context&);
Next on(const CreatingCandidate&, const VolumeCreated&, Context&);
Next on(const CreatingCandidate&, const EffectFailed&, Context&);
Next on(const MarkingVerified&, const CallAccepted&, Context&);
Next on(const Committing&, const CallAccepted&, Context&);
Next on(const Committing&, const EffectFailed&, Context&);
Next on(const Promoting&, const CallAccepted&, Context&);
Next on(const Discarding&, const CallAccepted&, Context&);
Next on(const Discarding&, const EffectFailed&, Context&);
// --- fence.cpp ---
Next on(const WritingEpoch&, const EpochWritten&, Context&);
Next on(const WritingEpoch&, const EffectFailed&, Context&);
Next on(const ReleasingEpoch&, const EpochWritten&, Context&);
// --- preparing.cpp ---
Next on(const AwaitingGpus&, const GpusFound&, Context&);
Next on(const AwaitingGpus&, const EffectFailed&, Context&);
Next on(const GivingBack&, const CallAccepted&, Context&);
Next on(const GivingBack&, const EffectFailed&, Context&);
Next on(const GivingBack&, const Woke&, Context&);
Next on(const PreparingData&, const Mounted&, Context&);
Next on(const PreparingData&, const EffectFailed&, Context&);
Next on(const ReleasingData&, const Unmounted&, Context&);
Next on(const ReleasingData&, const EffectFailed&, Context&);
Next on(const ReleasingData&, const Woke&, Context&);
Next on(const CountingAttempt&, const LedgerWritten&, Context&);
Next on(const CountingAttempt&, const EffectFailed&, Context&);
Next on(const FetchingCode&, const CodeFetched&, Context&);
Next on(const FetchingCode&, const EffectFailed&, Context&);
Next on(const StartingTrainer&, const TrainerStarted&, Context&);
Next on(const StartingTrainer&, const EffectFailed&, Context&);
Next on(const Filling&, const VolumeFilled&, Context&);
Next on(const MarkingPrepared&, const CallAccepted&, Context&);
// --- training.cpp ---
Next on(const Training&, const TrainerProgressed&, Context&);
Next on(const Training&, const TrainerResumed&, Context&);
Next on(const Training&, const CheckpointMade&, Context&);
Next on(const Training&, const RebalanceRecommended&, Context&);
Next on(const Training&, const HomeKept&, Context&);
Next on(const Training&, const TrainerEnded&, Context&);
Next on(const Training&, const RuledOut&, Context&);
Next on(const Training&, const TrainerHung&, Context&);
Next on(const Training&, const NoticeSeen&, Context&);
Next on(const Training&, const StopRequested&, Context&);
Next on(const Training&, const Woke&, Context&);
Next on(const Training&, const StorageSurveyed&, Context&);
Next on(const Training&, const CallAccepted&, Context&);
Next on(const Training&, const EpochWritten&, Context&);
Next on(const Training&, const SnapshotStarted&, Context&);
Next on(const Training&, const FleetRead&, Context&);
Next on(const Training&, const EffectFailed&, Context&);
Next on(const Stopping&, const StopRequested&, Context&);
Next on(const Stopping&, const EffectFailed&, Context&);
Next on(const Stopping&, const TrainerProgressed&, Context&);
Next on(const Stopping&, const CheckpointMade&, Context&);
Next on(const Stopping&, const HomeKept&, Context&);
Next on(const Stopping&, const TrainerEnded&, Context&);
Next on(const Stopping&, const NoticeSeen&, Context&);
Next on(const Stopping&, const Woke&, Context&);
// --- release.cpp ---
Next on(const Securing&, const StorageSynced&, Context&);
Next on(const Securing&, const EffectFailed&, Context&);
Next on(const SendingResult&, const ResultSent&, Context&);
Next on(const SendingResult&, const EffectFailed&, Context&);
Next on(const SendingResult&, const Woke&, Context&);
Next on(const ClosingLedger&, const LedgerWritten&, Context&);
Next on(const ClosingLedger&, const EffectFailed&, Context&);
Next on(const ClosingLedger&, const Woke&, Context&);
Next on(const Unmounting&, const Unmounted&, Context&);
Next on(const Unmounting&, const EffectFailed&, Context&);
Next on(const Unmounting&, const Woke&, Context&);
Next on(const FinalSnapshot&, const SnapshotStarted&, Context&);
Next on(const Detaching&, const CallAccepted&, Context&);
Next on(const Detaching&, const EffectFailed&, Context&);
Next on(const Detaching&, const Woke&, Context&);
Next on(const Released&, const NoticeSeen&, Context&);
Next on(const Released&, const NoticeWithdrawn&, Context&);
Next on(const Released&, const Woke&, Context&);
// --- finish.cpp ---
Next on(const MarkingDone&, const CallAccepted&, Context&);
Next on(const MarkingDone&, const EpochWritten&, Context&);
Next on(const MarkingDone&, const EffectFailed&, Context&);
Next on(const Tidying&, const StorageSurveyed&, Context&);
Next on(const Tidying&, const CallAccepted&, Context&);
Next on(const Tidying&, const EpochWritten&, Context&);
Next on(const Tidying&, const EffectFailed&, Context&);
Next on(const Tidying&, const Woke&, Context&);
Next on(const Finished&, const Woke&, Context&);
Next on(const Finished&, const IdentityRead&, Context&);
Next on(const GaveUp&, const Woke&, Context&);
Next on(const GaveUp&, const IdentityRead&, Context&);

// --- the default of every stage ---
// A notice is stored at once, and the stage that handles the awaited answer acts on it (leaving()).
// Local work that may take long is abandoned now. A call to EC2 is not: the agent must know its
// outcome before it releases the storage.
void remember_notice(Context&, const NoticeSeen&);  // release.cpp
void complete_lifecycle(Context&);                  // release.cpp
void remember_stop(Context&, const StopRequested&);
void abandon_local_work(Context&);

template <class AnyStage>
Next on(const AnyStage&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  abandon_local_work(c);
  return std::nullopt;
}
template <class AnyStage>
Next on(const AnyStage&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  abandon_local_work(c);
  return std::nullopt;
}
template <class AnyStage>
Next on(const AnyStage&, const NoticeWithdrawn&, Context& c) {
  c.facts.exit.notice.reset();
  return std::nullopt;
}
// An adopted trainer may end before the agent has looked: prepare_training() sees that.
template <class AnyStage>
Next on(const AnyStage&, const TrainerEnded& ended, Context& c) {
  if (c.facts.trainer.running) c.facts.exit.hinders_gang = ended.unfit_machine;
  c.facts.trainer.ended_success = c.facts.trainer.running && ended.success;
  c.facts.trainer.running = false;
  return std::nullopt;
}
template <class AnyStage, class AnyEvent>
Next on(const AnyStage&, const AnyEvent&, Context&) {
  return ignored();
}

// --- what several stages do alike, in the place of the default ---
template <class These, class... Stages>
concept OneOf = (std::same_as<These, Stages> || ...);

template <OneOf<Waiting, Blocked> These>
Next on(const These&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  return release_storage(c, ReleaseGoal::Release);
}
template <OneOf<Waiting, Blocked, GaveUp> These>
Next on(const These&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return release_storage(c, ReleaseGoal::Exit);
}
template <OneOf<Released, GivingBack, Finished> These>
Next on(const These&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return settle(c, ReleaseGoal::Exit);
}
template <OneOf<Surveying, Claiming, MarkingVerified, Promoting> These>
Next on(const These&, const EffectFailed& failed, Context& c) {
  return call_failed(c, failed);
}
// The next run finds all that was brought, and marks it.
template <OneOf<Filling, MarkingPrepared> These>
Next on(const These&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  return block(c, Block::NotFilled, failed.detail);
}
template <OneOf<Training, Stopping> These>
Next on(const These&, const LedgerRead& read, Context& c) {
  learn_ledger(c, read);
  return std::nullopt;
}
// Each try says what it cost, also if another one follows.
template <OneOf<CountingAttempt, Securing, ClosingLedger> These>
Next on(const These&, const HomeKept& kept, Context& c) {
  remember_kept(c, kept);
  limit_keeping(c);
  return std::nullopt;
}
// It waits for the write before it.
template <OneOf<CountingAttempt, Securing> These>
Next on(const These&, const Woke&, Context& c) {
  end_keeping(c);
  return std::nullopt;
}
// A move without the snapshot only takes longer.
template <OneOf<FinalSnapshot, ReleasingEpoch> These>
Next on(const These& stage, const EffectFailed&, Context& c) {
  return next_release_step(c, stage.then);
}
// The group, whose target is 0 by now, takes this instance out.
template <OneOf<Finished, GaveUp> These>
Next on(const These&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  complete_lifecycle(c);
  return std::nullopt;
}
template <OneOf<Finished, GaveUp> These>
Next on(const These&, const EffectFailed&, Context& c) {
  c.wake_in(c.policy.tidy_every);
  return std::nullopt;
}

// Both ends of a fleet.
template <class These>
concept Ending = OneOf<These, CancellingFleet, ScalingToZero>;

inline Stage last_of(const Context& c, const CancellingFleet&) {
  return c.facts.exit.done ? Stage(Finished{}) : Stage(GaveUp{});
}
inline Stage last_of(const Context&, const ScalingToZero&) { return GaveUp{}; }
template <Ending These>
Stage end_fleet(Context& c, const These& stage) {
  return has_fleet(c) ? ask_end(c, stage) : rest(c, last_of(c, stage));
}
inline Stage cancel_fleet(Context& c) { return end_fleet(c, CancellingFleet{}); }
template <Ending These>
Next on(const These& stage, const IdentityRead& identity, Context& c) {
  remember_identity(c, identity);
  return ask_end(c, stage);
}
// While its tags may still come, "none" is no answer: what is not ended costs on.
template <Ending These>
Next on(const These& stage, const FleetRead& read, Context& c) {
  remember_fleet(c, read);
  if (c.facts.identity.fleet_known) return end_fleet(c, These{});
  c.wake_in(c.policy.poll_held);
  return stage;
}
template <Ending These>
Next on(const These& stage, const CallAccepted&, Context& c) {
  return rest(c, last_of(c, stage));
}
// It costs money until it succeeds: there is no last try. Any other failure than a refusal says
// nothing of our rights.
template <Ending These>
Next on(const These& stage, const EffectFailed& failed, Context& c) {
  if (Next end = end_in_vain(c, stage.failures, last_of(c, stage))) return end;
  return These{stage.failures + 1, failed.failure == Failure::Refused ? stage.refusals + 1 : 0};
}
template <Ending These>
Next on(const These& stage, const Woke&, Context& c) {
  return ask_end(c, stage);
}

}  // namespace spotter::decide
