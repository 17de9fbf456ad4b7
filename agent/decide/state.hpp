// All that an agent knows: the stage it is in, and the facts. Nothing else decides. A stage is a
// participle: what is going on now. It awaits one answer (`awaited`), or a wake-up (`wake_at`), or
// an event that is sensed. There is no state file: after a crash the agent looks again.
#pragma once

#include "agent/decide/event.hpp"

namespace spotter::decide {

constexpr Time kNever = Time::max();

// Why a volume is brought up: to train on it, or to verify a copy before the original is deleted.
enum class Purpose : std::uint8_t { Train, Verify };

// Why the agent waits, and no person needs to act.
enum class Wait : std::uint8_t {
  Retry,           // a call failed; look again
  VolumeHeld,      // another instance has the volume
  VolumeChanging,  // creating, attaching, detaching, deleting
  SnapshotPending,
  CommitSettling,  // two bounds after a commit that this session did not make
  TrainerRestart,  // it crashed; start it again after a pause
  ShareHeld,       // an instance of the fleet that was launched before this one may use the share
  HomeHeld,        // another machine has the job's home in the bucket
  FleetUnseen,     // EC2 does not show yet whose instances these are: one of them may use the share
};

// Why the agent cannot go on until a person acts.
enum class Block : std::uint8_t {
  NoVolume,
  TwoVolumes,
  VolumeBroken,  // EC2 says `error`
  CopyDamaged,   // the copy lacks the newest checkpoint of its parent's ledger
  BlankNotOurs,  // a blank disk without spotter:format=blank
  DiskForeign,
  FilesystemDamaged,
  MountFailed,
  ShareUnusable,
  ShareSilent,
  ManyInstances,  // the fleet keeps more than one, and a share has no lock for one writer
  DataUnusable,
  FenceOther,  // the volume's tag names another fence than job.yaml, or job.yaml names none
  FenceGone,   // the volume has a fence, and the object is not there
  HomeGone,    // the head of the home in the bucket was there, and is not any more
  DeviceAbsent,
  VolumeStuck,  // attaching or detaching does not end
  CodeUnreachable,
  CodeMissing,
  TrainerUnstartable,
  SetupFailed,
  NotPermitted,
  Rejected,
  GpusAbsent,    // and no fleet would launch another machine in the place of this one
  CopyVanished,  // EC2 made a copy and removed it: the instance's role may not use its key
  ChangeInVain,  // EC2 takes the same change again and again, and does not show it
  NotFree,       // to be filled: it is in use, done, elsewhere, or a move of it is under way
  NotFilled,
};

// The action that follows when the volume has been released.
enum class ReleaseGoal : std::uint8_t {
  Release,   // wait for the end of the instance
  Finish,    // the result is durable: cancel the fleet
  GiveUp,    // the job's failure policy or a limit
  Survey,    // drop this volume (a stale candidate) and look again
  GiveBack,  // the job cannot use this machine: end it, and the fleet launches another
  Exit,      // the service was asked to stop
};

// --- identity.cpp ---
struct Booting {};
struct LookingAround {};
struct Identifying {
  std::uint32_t failures = 0;
};
struct ReadingFleet {
  std::uint32_t failures = 0;
};
// --- storage.cpp ---
struct Surveying {};
struct Waiting {
  Wait why = Wait::Retry;
};
struct Blocked {
  Block why = Block::NoVolume;
  Detail detail;
};
struct Attaching {
  VolumeId volume;
};
struct Claiming {
  VolumeId volume;
  std::uint32_t generation = 0;
};
struct FindingDevice {};
struct Inspecting {};
struct Formatting {};
struct Mounting {};
struct ReadingLedger {};
struct Verifying {};
// --- share.cpp ---
struct Preparing {};
// --- migrate.cpp ---
struct Snapshotting {
  VolumeId volume;
};
struct CreatingCandidate {
  SnapshotId snapshot;
  std::uint32_t rate = 0;  // as CreateVolume has it
};
struct MarkingVerified {  // tagging the candidate `verified`
  VolumeId candidate;
};
struct Committing {  // deleting the parent
  VolumeId parent;
  Time asked_at;
  std::uint32_t generation = 0;  // in which the copy is used then
};
struct Promoting {
  VolumeId candidate;
  VolumeId original;  // that EC2 deleted for this session; empty: another was first, or a fence
  std::uint32_t generation = 0;  // as PromoteVolume has it
  Time by = kNever;              // answered later: others may have elected another copy
};
struct Discarding {};  // deleting a leftover volume or snapshot
// --- fence.cpp ---
struct WritingEpoch {  // to use or copy the volume, or to make the copy the job's
  Epoch epoch;
};
struct ReleasingEpoch {  // nothing is mounted: the next instance need not wait for our end
  ReleaseGoal then = ReleaseGoal::Release;
};
// --- preparing.cpp ---
struct PreparingData {};
struct ReleasingData {
  ReleaseGoal then = ReleaseGoal::Release;
  std::uint32_t failures = 0;
};
struct AwaitingGpus {};
struct CountingAttempt {};
struct FetchingCode {};
struct StartingTrainer {};
struct Filling {};
struct MarkingPrepared {};
// --- training.cpp ---
struct Training {
  bool tidying = false;
  bool tidied = false;         // nothing of an earlier move is left
  bool tidy_advanced = false;  // the first checkpoint has moved next_tidy here
  bool changed = false;        // a checkpoint was made since the last snapshot
  bool snapshot_due = false;   // the next look ends with a snapshot
  bool learns = false;         // adopted: the next look only learns the line and its epoch
  Time next_ledger;
  Time next_tidy = kNever;
  Time next_snapshot;  // no snapshot before this
};
// --- release.cpp ---
struct Stopping {
  ReleaseGoal then = ReleaseGoal::Release;
  Time kill_at;
  std::uint32_t kills = 0;
  bool restarts = false;  // it hangs: then it is started again here
};
struct Securing {};  // syncing the result, before anything calls it durable
struct ClosingLedger {
  ReleaseGoal then = ReleaseGoal::Release;
};
struct SendingResult {  // the ledger is done: whoever comes next only ends the job
  std::uint32_t failures = 0;
};
struct Unmounting {
  ReleaseGoal then = ReleaseGoal::Release;
  std::uint32_t tries = 0;
};
struct FinalSnapshot {  // begun on a notice: EBS copies it while the next instance boots
  ReleaseGoal then = ReleaseGoal::Release;
};
struct Detaching {
  ReleaseGoal then = ReleaseGoal::Release;
};
struct Releasing {  // of a share
  ReleaseGoal then = ReleaseGoal::Release;
};
struct Released {};
struct GivingBack {  // of the machine itself
  std::uint32_t failures = 0;
  Detail refused{};  // why EC2 refuses it: a person must act
};
// --- finish.cpp ---
struct MarkingDone {};
struct Tidying {     // before the end: no snapshot, no candidate may stay
  Time quiet_since;  // since when nothing was left to do
  Time marked_at;    // when the volume was last marked as done
  std::uint32_t failures = 0;
};
struct CancellingFleet {
  std::uint32_t failures = 0;
  std::uint32_t refusals = 0;  // the last ones of these
};
struct ScalingToZero {
  std::uint32_t failures = 0;
  std::uint32_t refusals = 0;
};
struct Finished {};
struct GaveUp {};
struct Leaving {};  // asked to stop: the process ends

using Stage = std::variant<
    Booting, LookingAround, Identifying, ReadingFleet, Surveying, Waiting, Blocked, Attaching,
    Claiming, FindingDevice, Inspecting, Formatting, Mounting, ReadingLedger, Verifying, Preparing,
    Snapshotting, CreatingCandidate, MarkingVerified, Committing, Promoting, Discarding,
    WritingEpoch, ReleasingEpoch, AwaitingGpus, PreparingData, CountingAttempt, FetchingCode,
    StartingTrainer, Filling, MarkingPrepared, Training, Stopping, Securing, ClosingLedger,
    SendingResult, Unmounting, FinalSnapshot, Detaching, Releasing, ReleasingData, Released,
    GivingBack, MarkingDone, Tidying, CancellingFleet, ScalingToZero, Finished, GaveUp, Leaving>;

struct Notice {
  InterruptionAction action = InterruptionAction::Terminate;
  Time deadline;
  bool held = false;   // by a lifecycle hook of its Auto Scaling group, until we complete it
  Duration leeway{0};  // as NoticeSeen has it
};

// Why the job was given up, for the journal.
enum class Surrender : std::uint8_t {
  None,
  NoProgress,
  HoursSpent,
  DollarsSpent,
  BlockedTooLong,
  GpusAbsent,
  StartsInVain
};

// Everything known of the world, whatever the stage. The parts differ in who writes them and in
// what resets them; a new session of the agent begins with none of it.
struct Facts {
  // This machine and its fleet. identity.cpp writes it when the metadata service and EC2 answer,
  // finish.cpp when they did not answer before; nothing resets it.
  struct Identity {
    InstanceId instance;
    InstanceType type;
    Zone zone;
    Region region;
    Fleet fleet;
    bool fleet_known = false;
    Time fleet_asked_at = kNever;  // since when EC2 answers which fleet it is: none, at first
    Time fleet_call_at = kNever;   // when it was asked last
    double dollars_per_hour = 0;   // 0: unknown
    bool ec2 = false;              // as HostLooked has it
    bool shut_down = false;        // as FleetRead has it, ...
    bool once = false;             // ... and this, too
  };

  // The storage that this machine attaches, mounts and releases. A detach resets what belongs to
  // one attachment (release.cpp).
  struct Holding {
    VolumeId volume;  // the job's, or a copy that is being verified
    Purpose purpose = Purpose::Train;
    bool ours_to_format = false;
    bool attached = false;
    ShortText<31> attached_as;
    std::uint32_t attach_attempt = 0;  // that came to nothing; each has its own device name
    Time changing_since = kNever;      // since when EC2 shows it attaching or detaching
    Device device;
    bool mounted = false;
    bool unproven = false;  // an earlier session attached it, and its unmount may not have ended
    std::uint32_t generation = 0;  // that we wrote on `volume`; 0: we have not claimed it yet
    Time claimed_at = kNever;      // since when others may see that we use it
    VolumeId released;  // the volume that we detached last; EC2 may still show it as attached here
    Time released_at = kNever;
    bool data = false;  // volumes of data may be here: mounted, attached, or asked for
  };

  // The move between zones. A detach resets `verified` and `marked`, an answer or a survey the
  // times of what EC2 shows by then.
  struct Move {
    VolumeId lineage;         // the job's first volume: line_of() of all that is its own
    std::uint32_t moves = 0;  // of the job's volume, as last seen
    std::uint32_t create_attempt = 0;
    Time created_at = kNever;               // of a copy that EC2 does not show yet
    Time snapshot_asked_at = kNever;        // EC2 may not show a snapshot at once
    Time snapshot_asked_ahead_at = kNever;  // of a snapshot ahead that was not answered yet
    bool unpaid = false;                    // EC2 refused a copy with a rate: one without may do
    double rate_dollars = 0;                // of the copy's rate; the ledger has it when it is read
    VolumeId verified;    // the candidate whose newest checkpoint this session verified
    bool marked = false;  // and tagged so
    // That checkpoint's, while nobody writes to the copy; -1: one of its checkpoints is torn.
    std::int64_t proven_step = -1;
    // The commit of this session: EC2 deleted the original for it, and for nobody else, and took
    // the copy's promotion; as_known() shows both as long as EC2 may not.
    VolumeId original;
    VolumeId committed;
    Time committed_at = kNever;
    Time parent_gone_since = kNever;  // since when no volume carries the discovery tag, and ...
    VolumeId elected;                 // ... this candidate follows it (empty: none)
  };

  // The job's epoch, of a job with a fence. fence.cpp writes it, and training.cpp `epoch`.
  struct Fence {
    Epoch epoch;             // as it was read or written last
    std::uint32_t ours = 0;  // the number that this session wrote last; 0: none that counts
    // Since when EC2 shows the holder of an epoch as stopped, or not at all; a new epoch ends that.
    Time holder_lost_since = kNever;
    std::uint32_t holder_lost_in = 0;
    InstanceId self;  // of a home in a bucket: the holder that this session is
  };

  // The home in a bucket, and this session's way there. share.cpp writes it.
  struct Home {
    Time keeping_since = kNever;  // a write is under way since then
    EffectId keeping;             // that one
    bool changed = false;         // a checkpoint was made since it began
    bool newer = false;    // what is here may be: this machine had it before, or a trainer ran
    bool brought = false;  // and it was brought up in the epoch that is ours
    std::int64_t kept_step = -1;  // of the newest checkpoint in the bucket
    Duration upload{0};  // of the last write that brought a checkpoint there; 0: none has yet
    std::uint64_t upload_bytes = 0;  // that it sent
  };

  // The removal at the end of the job. Only finish.cpp writes it; tidy_up() resets the times.
  struct Tidying {
    Time since = kNever;
    Time candidates_free_since = kNever;  // since when no instance holds an electable candidate
    Detail data_left;  // volumes of data that stay at the end, and the instances that hold them
  };

  // The trainer of this machine. preparing.cpp resets it at each start, training.cpp and
  // release.cpp write what the trainer reports; identity.cpp and transitions.hpp how it ended
  // unwatched.
  struct Trainer {
    bool running = false;
    bool ended_success = false;    // it ended well, and its result may still have to be synced
    Time started_at = kNever;      // by this session
    Time reported_at = kNever;     // its last report of a step or a checkpoint, or its start
    Duration advised_interval{0};  // between checkpoints, as StartTrainer or PaceTrainer said it
    std::int64_t step = -1;
    std::int64_t resumed_step = -1;
    Time checkpoint_at = kNever;  // when the newest checkpoint of this trainer became durable
  };

  // The job's record on its storage. storage.cpp reads it, training.cpp and release.cpp count in it
  // and write it; `ledger_known` is reset when the storage is released (settle()).
  struct Progress {
    Ledger ledger;
    bool ledger_known = false;
    Spent others{};  // LedgerRead::others, the most that was read: the trainer may write there
    Time counted_until = kNever;        // up to here the ledger's seconds are counted
    std::int64_t checkpoint_step = -1;  // of the newest checkpoint; -1: none
    bool counts_writes = false;         // and that is no step, but how many writes the guard saw
  };

  // The last change that a look at the storage led to. Only plan.cpp writes it.
  struct Change {
    std::size_t kind = 0;  // of Command
    ShortText<31> of;      // the id of what was to be changed
    // With no other one in between, how often EC2 took it, and how often nobody knows.
    std::uint32_t taken = 0;
    std::uint32_t unsure = 0;
    EffectId asked;
    Time asked_at = kNever;
  };

  // Counters behind pauses and limits. Whoever fails adds to one; a success resets it.
  struct Trouble {
    std::uint32_t retries = 0;  // calls that failed since the last success
    Duration blocked{0};        // for how long a person was needed since the last real work
    Duration setups{0};         // the same, and what the setup took, while it fails each time
    Time left_since = kNever;   // processes of a trainer hinder the next, or an unmount
    std::uint32_t crashes = 0;  // of the trainer, on this instance, since the last checkpoint
    Change change;
  };

  // Why this session ends, or will. Any file writes it. Reset are: a notice that came to nothing,
  // `unfit` when the GPUs appear or a trainer starts, `done` when the result was lost or has moved.
  struct Exit {
    std::optional<Notice> notice;
    bool leave = false;         // StopRequested: the process ends when all is released, ...
    Time leave_by = kNever;     // ... by then
    bool unfit = false;         // this machine lacks what the job needs, ...
    bool hinders_gang = false;  // ... or keeps its gang from training, as that says
    Surrender surrender = Surrender::None;
    bool done = false;    // the result is durable, by the volume's tag, its ledger or the trainer
    bool filled = false;  // and marked so: Policy::fills
  };

  Identity identity;
  Holding holding;
  Move move;
  Fence fence;
  Home home;
  Tidying tidying;
  Trainer trainer;
  Progress progress;
  Trouble trouble;
  Exit exit;
};

struct State {
  Facts facts;
  Stage stage = Booting{};
  EffectId awaited;
  Time wake_at = kNever;
  std::uint32_t incarnation = 1;
  std::uint32_t effects_made = 0;
};

}  // namespace spotter::decide
