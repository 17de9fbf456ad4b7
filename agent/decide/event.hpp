// All that can happen to an agent. A past participle each; `at` is when the agent saw it. An answer
// carries the id of the effect that asked (`effect`); an event that is sensed has none.
#pragma once

#include <optional>
#include <variant>

#include "agent/decide/ledger.hpp"
#include "agent/decide/survey.hpp"

namespace spotter::decide {

// The session that asked (a number drawn at each start of the agent), and the number of its effect.
// {0,0}: none.
struct EffectId {
  std::uint32_t incarnation = 0;
  std::uint32_t number = 0;
  explicit operator bool() const { return number != 0; }
  friend bool operator==(const EffectId&, const EffectId&) = default;
};

// Why an effect failed, as far as the core decides by it. `detail` has the text for a person.
enum class Failure : std::uint8_t {
  Unavailable,  // throttled, 5xx, no network, timed out: try again later
  Refused,      // no permission: a person must act
  Rejected,     // a request that EC2 will never take: a person must act
  Missing,      // what the call names does not exist (any more)
  Conflict,     // it is in another state than we thought (in use, already there)
  Abandoned,    // we asked for it to be given up
  DeviceAbsent,
  DiskForeign,        // another file system or other data than the job's
  DiskNotBlank,       // asked to format, found data
  FilesystemDamaged,  // fsck or log replay says no
  MountFailed,
  Busy,         // cannot unmount: a process has a file open
  ShareSilent,  // its server does not answer
  CodeUnreachable,
  CodeMissing,  // the pinned revision does not exist there
  TrainerUnstartable,
  ProcessesLeft,  // by the trainer before: not even SIGKILL ends them
  GpusAbsent,     // fewer than the job needs, or none that answers
};

using Detail = ShortText<200>;

// --- sensed ---
struct Started {};
struct Woke {};
struct NoticeSeen {
  InterruptionAction action = InterruptionAction::Terminate;
  Time deadline;  // on the boot clock: now + (the notice's time - the Date of the same answer)
  // A hook of the instance's Auto Scaling group holds it: it ends as soon as the agent says so.
  bool held = false;
  Duration leeway{0};  // so long after the deadline EC2 may still not have ended it
};
struct NoticeWithdrawn {};
struct RebalanceRecommended {};
struct TrainerProgressed {
  std::int64_t step = 0;
  bool logged = false;  // read in the trainer's own log, which may get a line an epoch only
};
struct TrainerResumed {
  std::int64_t step = 0;
};
struct CheckpointMade {  // durable, says the trainer
  std::int64_t step = 0;
  Duration stall{0};   // how long training stood still for it; 0: it does not say
  bool write = false;  // `step` counts the writes that the guard saw: the file's name has no step
};
// A write of the ledger took a home to its bucket, or could not.
struct HomeKept {
  enum class Outcome : std::uint8_t {
    Committed,
    Failed,  // nothing is known of the bucket; the next write takes all of it
    Lost,    // another machine has the home: nothing that this one does counts any more
  };
  Outcome outcome = Outcome::Committed;
  std::int64_t newest = -1;  // the step of the newest checkpoint that is in the bucket; -1: none
  std::uint64_t bytes = 0;   // that were sent
  Duration took{0};
  std::uint64_t s3_writes = 0;  // requests to S3 since the last such event (Ledger::s3_writes)
  std::uint64_t s3_reads = 0;
};
struct TrainerEnded {
  bool success = false;           // exit status 0, and the declared result exists
  bool stopped_as_asked = false;  // EX_TEMPFAIL (75), or death by the signal that we sent
  bool unfit_machine = false;  // says its gang: twice this machine was the reason that it stopped
  // It failed before its first progress: the checkpoint before the newest is there in its place.
  bool checkpoint_doubted = false;
  bool setup_failed = false;  // it was not reached: a command of job.yaml's `setup` failed
};
struct RuledOut {  // by the rule of the sweep (sweep/asha.hpp): more training is not worth its cost
  Detail why;
};
// Nothing comes of it, and nothing works (service/sense/stall.hpp).
struct TrainerHung {};
struct StopRequested {  // SIGINT, or SIGTERM while the machine shuts down: release everything
  Time deadline;
};

// --- answers ---
struct HostLooked {
  enum class Trainer : std::uint8_t { None, Running, Ended } trainer = Trainer::None;
  TrainerEnded ended;  // when Ended
  VolumeId mounted;    // empty: nothing of ours
  bool share = false;  // the job's share is mounted here, or is a folder that is always there
  bool ec2 = false;    // the hardware says that this is an instance, so it has a metadata service
};
struct IdentityRead {
  InstanceId instance;
  InstanceType type;
  Zone zone;
  Region region;
};
struct FleetRead {
  Fleet fleet;
  double dollars_per_hour = 0;  // 0: unknown
  std::uint32_t target = 0;     // how many instances it keeps; 0: unknown, or not asked for
  // Its instances that were launched before this one and are not terminated: on a share the one
  // that was launched first writes.
  std::uint32_t earlier = 0;
  // Instances of the same image, launched before this one, that show no fleet: they may be its.
  std::uint32_t untagged = 0;
  // The last of its machines before this one shut itself down: it may not end the fleet.
  bool shut_down = false;
  // The fleet launches once. A group with several types launches each instance by such a fleet, and
  // the group's own tag may come later.
  bool instant = false;
  bool once = false;  // it is one of a capacity reservation: no other machine follows this one

  // Another answer may change: there may be a fleet that has not shown its tags yet.
  bool is_final() const { return fleet.kind != FleetKind::None && !instant; }
};
struct StorageSurveyed {
  Survey survey;
};
struct CallAccepted {};  // an EC2 call that changes something was taken
struct EpochWritten {};
struct SnapshotStarted {
  SnapshotId snapshot;
};
struct VolumeCreated {
  VolumeId volume;
};
struct DeviceFound {
  Device device;
};
struct DiskInspected {
  bool blank = false;
  bool matches = false;  // holds the file system that job.yaml names
  Detail found;          // "ext4", "LVM2_member", ...
};
struct FilesystemMade {};
struct Mounted {
  bool cleared = false;  // what was in a home's working copy was older, or of no history
};
struct Unmounted {};
struct LedgerRead {
  Ledger ledger;
  Spent others{};  // by the ledgers of the gang's other machines, gone ones too
};
struct LedgerWritten {};
struct StorageSynced {};
struct ResultSent {};
struct CheckpointsVerified {
  std::optional<std::int64_t> newest;  // step of the newest one that verifies
  std::uint32_t torn = 0;              // moved aside
  bool write = false;                  // as in CheckpointMade
};
struct GpusFound {};
struct CodeFetched {};
struct VolumeFilled {};
struct TrainerStarted {};
struct EffectFailed {
  Failure failure = Failure::Unavailable;
  // A changing call without an answer may have been carried out: only a later look settles it.
  bool unsettled = false;
  Detail detail;
};

using Happening =
    std::variant<Started, Woke, NoticeSeen, NoticeWithdrawn, RebalanceRecommended,
                 TrainerProgressed, TrainerResumed, CheckpointMade, HomeKept, TrainerEnded,
                 RuledOut, TrainerHung, StopRequested, HostLooked, IdentityRead, FleetRead,
                 StorageSurveyed, CallAccepted, EpochWritten, SnapshotStarted, VolumeCreated,
                 DeviceFound, DiskInspected, FilesystemMade, Mounted, Unmounted, LedgerRead,
                 LedgerWritten, StorageSynced, ResultSent, CheckpointsVerified, GpusFound,
                 CodeFetched, VolumeFilled, TrainerStarted, EffectFailed>;

struct Event {
  Time at;
  EffectId effect;  // the question that this answers
  Happening what;
};

}  // namespace spotter::decide
