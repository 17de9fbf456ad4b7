// All that the core can ask for. An imperative each; exactly one event answers it and carries its
// id, at the latest at its deadline (then EffectFailed). All are idempotent.
#pragma once

#include <utility>
#include <vector>

#include "agent/decide/event.hpp"

namespace spotter::decide {

// --- looking ---
struct LookAtHost {};
struct ReadIdentity {};
struct ReadFleet {
  InstanceId instance;
};
struct SurveyStorage {
  VolumeId line;  // whose epoch is read, where the session knows it: line_in()
};

// --- EC2, changing ---
struct AttachVolume {
  VolumeId volume;
  InstanceId instance;
  std::uint32_t attempt = 0;  // chooses the device name: one that is stuck is not used again
};
struct DetachVolume {
  VolumeId volume;
  InstanceId instance;
};
struct ClaimVolume {  // spotter:generation = generation, spotter:role = state
  VolumeId volume;
  std::uint32_t generation = 0;
};
struct CreateSnapshot {
  VolumeId volume;
  std::uint32_t generation = 0;
  VolumeId lineage;  // these two of the volume, for the tags
  std::uint32_t moves = 0;
  Taken taken = Taken::Moving;
};
struct CreateVolume {  // a candidate in our zone, in all else like its parent
  Zone zone;
  SnapshotId snapshot;
  VolumeId parent;
  std::uint32_t generation = 0;
  VolumeId lineage;           // of the parent, for the tag
  std::uint32_t moves = 0;    // one more than the parent, for the tag
  std::uint32_t attempt = 0;  // part of the ClientToken, which cannot be used again after a failure
  std::uint32_t rate = 0;     // MiB/s, at which EBS loads it; 0: none
};
struct MarkVerified {
  VolumeId volume;
};
struct PromoteVolume {  // gives it the discovery tag and spotter:role = state
  VolumeId volume;
  std::uint32_t generation = 0;  // not 0: and claims it
};
struct MarkDone {   // a tag; on a share a file beside the checkpoints
  VolumeId volume;  // empty: on a share
};
struct MarkPrepared {  // spotter:prepared: what `prepare:` named is on it
  VolumeId volume;
};
struct WriteEpoch {  // in the place of the one before it, and of no other: else Conflict
  Epoch epoch;
};
struct DeleteVolume {
  VolumeId volume;
};
struct DeleteSnapshot {
  SnapshotId snapshot;
};
struct CancelFleet {
  Fleet fleet;
  bool or_shut_down = false;  // refused: this machine then
};
struct ScaleFleetToZero {
  Fleet fleet;
  bool or_shut_down = false;
};
struct GiveBackInstance {  // the fleet starts another in its place
  InstanceId instance;
};
struct LeaveFleet {  // the instance ends, and its fleet has one place less: it starts no other
  Fleet fleet;
  InstanceId instance;
  bool or_shut_down = false;
};
struct CompleteLifecycle {  // its Auto Scaling group, which takes it out, need not wait for us
  Fleet fleet;
  InstanceId instance;
};

// --- the host ---
struct FindDevice {
  VolumeId volume;
  ShortText<31> attached_as;
};
struct InspectDisk {
  Device device;
};
struct MakeFilesystem {
  Device device;
};
struct Mount {
  Device device;
  VolumeId volume;
  bool read_only = false;  // a copy that is being verified: nothing may write to it yet
};
struct Unmount {  // and proves that nothing here has the volume mounted still, whoever unmounted it
  VolumeId volume;
  ShortText<31> attached_as;
};
struct PrepareShare {};  // mounts it, if it is not mounted, lays it out and writes to it
struct ReleaseShare {};  // unmounts it lazily, if we mounted it and no other process needs it
struct ReadLedger {};
// With a home in a bucket it also commits what the bucket has not yet, whole and as one commit, if
// the epoch of that number is still ours (else Conflict). HomeKept says how that went, too.
struct WriteLedger {
  Ledger ledger;
  std::uint32_t epoch = 0;
};
struct SyncStorage {};  // all that was written to the volume is durable, or an error says not
struct SendResult {};   // to where the job is published, from where a person fetches it
struct VerifyCheckpoints {
  bool read_only = false;  // torn ones are passed over, not moved aside
  // The newest one was read as a copy's a moment ago, and none was torn: it is not read again. -1:
  // it was not.
  std::int64_t proven_step = -1;
};
// Each volume of data: found or made in this zone, attached here, mounted read-only.
struct PrepareData {
  InstanceId instance;
  Zone zone;
};
struct ReleaseData {  // unmounted and detached
  InstanceId instance;
  bool remove = false;  // and deleted, with all that lie free in other zones: the job is over
};
struct AwaitGpus {};  // until as many as the job needs are there, with all they need to work
struct FetchCode {};
struct FillVolume {  // with what `prepare:` names, whole and durable; what is there stays
  VolumeId volume;
};
struct StartTrainer {
  Duration checkpoint_every{0};  // the interval that it is advised
  // A fleet launches another machine in the place of this one, if this one is given back.
  bool replaced = false;
};
// Advises a running trainer how often to write a checkpoint and, when `asked` is not kNever, asks
// for one that is newer than `asked`. The trainer reads both when it polls.
struct PaceTrainer {
  Duration checkpoint_every{0};
  Time asked = Time::max();
};
struct StopTrainer {  // tells it the reason and the deadline, then sends its stop signal
  InterruptionAction action = InterruptionAction::Terminate;
  Time deadline;
  Time usable_until = Time::max();  // up to here it may go on training; max: it stops at once
  bool signalled = false;           // it has its stop signal; only the times are new
};
struct KillTrainer {};

// --- ourselves ---
struct Abandon {
  EffectId effect;
};
struct Exit {};

using Command =
    std::variant<LookAtHost, ReadIdentity, ReadFleet, SurveyStorage, AttachVolume, DetachVolume,
                 ClaimVolume, CreateSnapshot, CreateVolume, MarkVerified, PromoteVolume, MarkDone,
                 MarkPrepared, WriteEpoch, DeleteVolume, DeleteSnapshot, CancelFleet,
                 ScaleFleetToZero, GiveBackInstance, LeaveFleet, CompleteLifecycle, FindDevice,
                 InspectDisk, MakeFilesystem, Mount, Unmount, PrepareShare, ReleaseShare,
                 PrepareData, ReleaseData, ReadLedger, WriteLedger, SyncStorage, SendResult,
                 VerifyCheckpoints, AwaitGpus, FetchCode, FillVolume, StartTrainer, PaceTrainer,
                 StopTrainer, KillTrainer, Abandon, Exit>;

struct Effect {
  EffectId id;
  Time deadline;
  Command what;
};

using Effects = std::vector<Effect>;  // of one step, in order

}  // namespace spotter::decide
