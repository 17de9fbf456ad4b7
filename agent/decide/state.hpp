// All that an agent knows: the stage it is in, and the facts it has learned. Nothing else decides.
// A stage is a participle: what is going on now. It awaits one answer (`awaited`), or a wake-up
// (`wake_at`), or something sensed. There is no state file: after a crash the agent looks again.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "agent/base/names.hpp"
#include "agent/decide/event.hpp"
#include "agent/decide/ledger.hpp"

namespace spotter::decide {

constexpr Time kNever = Time::max();

// Why a volume is being brought up: to train on it, or to prove a copy before its parent may go.
enum class Purpose : std::uint8_t { Train, Prove };

// Why nothing can be done just now, and no person needs to act.
enum class Wait : std::uint8_t {
  Retry,           // a call failed; look again
  VolumeHeld,      // another instance has the volume
  VolumeChanging,  // creating, attaching, detaching, deleting
  SnapshotPending,
  CandidateSettling,  // the consistency bound before the commit
  CommitSettling,     // two bounds after it
  TrainerRestart,     // it crashed; start it again after a pause
  ShareHeld,          // an instance of the fleet that began before this one may use the share
};

// Why nothing can be done until a person acts.
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
  DeviceAbsent,
  VolumeStuck,  // attaching or detaching does not end
  CodeUnreachable,
  CodeMissing,
  TrainerUnstartable,
  NotPermitted,
  Rejected,
  GpusAbsent,    // and nobody would start another machine in the place of this one
  CopyVanished,  // a copy was made, and then was gone: a key that may not be used
  NotFree,       // to be filled: it is in use, done, elsewhere, or a move of it is under way
  NotFilled,
};

// What follows when the volume has been let go.
enum class After : std::uint8_t {
  Release,   // wait for the end of the instance
  Finish,    // the result is durable: cancel the fleet
  GiveUp,    // the job's failure policy or a limit
  Survey,    // drop this volume (a stale candidate) and look again
  GiveBack,  // this machine is of no use: end it, and the fleet starts another
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
struct ReadingAccount {};
struct Verifying {};
// --- share.cpp ---
struct Preparing {};
// --- migrate.cpp ---
struct Snapshotting {
  VolumeId volume;
};
struct CreatingCandidate {
  SnapshotId snapshot;
};
struct Attesting {  // tagging the candidate `verified`
  VolumeId candidate;
};
struct Committing {  // deleting the parent
  VolumeId parent;
};
struct Promoting {
  VolumeId candidate;
};
struct Discarding {};  // deleting a leftover volume or snapshot
// --- data.cpp ---
struct PreparingData {};
struct ReleasingData {
  After then = After::Release;
  std::uint32_t failures = 0;
};
// --- code.cpp ---
struct AwaitingGpus {};
struct CountingAttempt {};
struct FetchingCode {};
struct StartingTrainer {};
// --- fill.cpp ---
struct Filling {};
struct MarkingPrepared {};
// --- training.cpp ---
struct Training {
  bool tidying = false;
  bool tidied = false;   // nothing of an earlier move is left
  bool hurried = false;  // the first checkpoint has moved next_tidy here
  bool changed = false;  // a checkpoint was made since the last snapshot
  bool imaging = false;  // the next look ends with a snapshot
  Time next_ledger;
  Time next_tidy = kNever;
  Time next_image;  // no snapshot before this
};
// --- release.cpp ---
struct Stopping {
  After then = After::Release;
  Time kill_at;
  std::uint32_t kills = 0;
};
struct Securing {};  // syncing the result, before anything calls it durable
struct ClosingAccount {
  After then = After::Release;
};
struct Unmounting {
  After then = After::Release;
  std::uint32_t tries = 0;
};
struct Imaging {  // the last snapshot, on a notice: it is copied while the next instance boots
  After then = After::Release;
};
struct Detaching {
  After then = After::Release;
};
struct Releasing {  // of a share
  After then = After::Release;
};
struct Released {};
struct GivingBack {  // of the machine itself
  std::uint32_t failures = 0;
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
};
struct ScalingToZero {
  std::uint32_t failures = 0;
};
struct Finished {};
struct GaveUp {};
struct Leaving {};  // asked to stop: the process ends

using Stage =
    std::variant<Booting, LookingAround, Identifying, ReadingFleet, Surveying, Waiting, Blocked,
                 Attaching, Claiming, FindingDevice, Inspecting, Formatting, Mounting,
                 ReadingAccount, Verifying, Preparing, Snapshotting, CreatingCandidate, Attesting,
                 Committing, Promoting, Discarding, AwaitingGpus, PreparingData, CountingAttempt,
                 FetchingCode, StartingTrainer, Filling, MarkingPrepared, Training, Stopping,
                 Securing, ClosingAccount, Unmounting, Imaging, Detaching, Releasing, ReleasingData,
                 Released, GivingBack, MarkingDone, Tidying, CancellingFleet, ScalingToZero,
                 Finished, GaveUp, Leaving>;

struct Notice {
  InterruptionAction action = InterruptionAction::Terminate;
  Time deadline;
  bool held = false;  // by its Auto Scaling group, until we let it end
};

// Why the job was given up, for the journal.
enum class Surrender : std::uint8_t {
  None,
  NoProgress,
  HoursSpent,
  DollarsSpent,
  BlockedTooLong,
  GpusAbsent
};

struct Facts {
  // who am I
  InstanceId instance;
  InstanceType type;
  Zone zone;
  Region region;
  Fleet fleet;
  bool fleet_known = false;
  double dollars_per_hour = 0;
  // the volume in hand
  VolumeId volume;
  Purpose purpose = Purpose::Train;
  bool ours_to_format = false;
  bool attached = false;
  bool mounted = false;
  ShortText<31> attached_as;
  Device device;
  VolumeId lineage;                  // the job's first volume: line_of() of all that is its own
  std::uint32_t moves = 0;           // of the job's volume, as last seen
  std::uint32_t generation = 0;      // that we wrote on `volume`; 0: not claimed by us yet
  VolumeId proven;                   // the candidate whose newest checkpoint we verified ourselves
  Time proven_at = kNever;           // when it was tagged `verified`
  Time claimed_at = kNever;          // since when others may see that we use it
  Time parent_gone_since = kNever;   // since when no volume carries the discovery tag, and ...
  VolumeId elected;                  // ... this copy is the one that follows (empty: none)
  Time changing_since = kNever;      // since when EC2 shows it attaching or detaching here
  std::uint32_t attach_attempt = 0;  // that came to nothing; each has its own device name
  Time tidying_since = kNever;
  Time candidates_free_since = kNever;  // since when no instance holds a copy that may be elected
  Time imaged_at = kNever;              // when we asked for a snapshot ahead, and no answer came
  VolumeId let_go;  // what we detached last; EC2 may still show it as attached here
  Time let_go_at = kNever;
  std::uint32_t create_attempt = 0;
  Time created_at = kNever;         // a copy that EC2 does not show yet
  Time snapshot_asked_at = kNever;  // EC2 may not show a snapshot at once
  // the volumes of data
  bool data = false;  // some may be here: mounted, attached, or asked for
  Detail data_left;   // those that stay at the end, and who has them
  // what goes wrong
  std::uint32_t retries = 0;  // of calls, since the last success
  Duration blocked{0};        // for how long a person was needed since the last real work
  std::uint32_t crashes = 0;  // of the trainer, on this instance, since the last checkpoint
  Surrender surrender = Surrender::None;
  // the end
  std::optional<Notice> notice;
  bool leave = false;  // StopRequested: go when all is let go
  bool unfit = false;  // this machine lacks what the job needs
  // the job
  bool trainer_running = false;
  Time started_at = kNever;     // of the trainer, by us
  Time checkpoint_at = kNever;  // when the newest checkpoint of this trainer became durable
  Time heard_at = kNever;       // when it last told of a step or a checkpoint, or began
  Duration paced{0};            // the interval that the trainer was told; 0: none
  bool ended_success = false;   // it ended well while no agent was there to see
  bool filled = false;          // and marked so: Policy::fills
  bool done = false;  // the result is durable, by the volume's tag, its ledger or the trainer
  Ledger ledger;
  bool ledger_known = false;
  Time accounted = kNever;  // up to here the ledger's seconds are counted
  std::int64_t step = -1;
  std::int64_t resumed_step = -1;
  std::int64_t checkpoint_step = -1;
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
