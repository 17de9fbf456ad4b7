// Every fault that can happen in a run. The seed switches each on or off, so that rare
// combinations are common somewhere, and some seeds have them all at once.
#pragma once

#include <bitset>

#include "agent/base/names.hpp"

namespace spotter::simulate {

enum class Fault : std::uint8_t {
  // --- of an instance ---
  Notice,             // two minutes
  ShortNotice,        // five seconds
  Kill,               // none
  Withdrawal,         // a notice that is taken back
  Stop,               // stopped, and started again some time
  Hibernate,          // without two minutes; the agent boots again
  FailedTermination,  // a past time stays behind
  Rebalance,          // comes to nothing
  NoticeAtFinish,     // in the very second in which the trainer ends
  AgentKill,          // of the agent alone
  // --- metadata ---
  MetadataBroken,  // down, 401, 403, 429, 500, empty, garbage, half a document
  MetadataSlow,
  ClockStep,  // of the wall clock from which the notice's time is taken
  // --- EC2 ---
  Throttled,  // every call, for minutes
  Denied,     // one action after the other, for a while
  DryRun,     // the same, by a policy that only lets DryRun pass
  ZoneCloses,
  AllZonesClose,
  AttachHangs,
  AttachBusy,
  DetachHangs,
  DeviceAbsent,  // until it is attached again
  LateDevice,
  OtherName,
  SlowSnapshots,  // five minutes
  HourSnapshots,
  SnapshotError,
  SnapshotRecoverable,
  VolumeError,
  KeyForbidden,  // of an encrypted volume
  // --- of operators ---
  Overlap,       // a replacement beside what it replaces
  RaisedTarget,  // two to four
  FleetOfMany,   // from the beginning
  SecondVolume,
  VolumeDeleted,
  UntaggedBlank,  // a new disk without the tag that allows formatting it
  ForeignDisk,
  GitUnreachable,
  RevisionGone,
  // --- the disk ---
  DiskFull,
  DiskReadOnly,
  DirtyLog,
  SyncFails,
  // --- the trainer ---
  Crashes,
  NoResult,  // exit 0, and nothing there
  Hangs,     // no step, no signal taken
  Deaf,
  Unaware,         // takes the signal as its end
  Mute,            // says nothing of its steps
  PermanentCrash,  // before any checkpoint, always
  // --- the job's own limits ---
  HoursLimit,
  DollarsLimit,
  // --- of a share's server; drawn from a sequence of their own (share.cpp) ---
  ShareSilent,   // answers nothing for a while, then goes on where it was
  ShareDies,     // is killed and started: what was not acknowledged is lost, connections are stale
  ShareDenied,   // refuses every write
  ShareHeldOff,  // silent just when a notice comes
  ShareUnread,   // silent, and the agent killed, shortly before the trainer finishes
  // --- of GPUs; drawn from a sequence of their own, too (gpus.cpp) ---
  GpusAbsent,  // a machine in three boots with too few
  GpusNever,   // every machine does: the fleet is of the wrong type
  GpuLost,     // one falls off the bus under the trainer
  // --- of other jobs' volumes; drawn from a sequence of their own (namesake.cpp) ---
  Namesake,  // another job of the same name, with another volume
  Restored,  // what was deleted for its copy comes back from EC2's recycle bin, with its tags
  // --- of a fleet; drawn from a sequence of its own ---
  FleetTagsLate,  // its tags come 5 to 90 s after its instance
  // --- of a machine whose job's home is in a bucket; drawn from a sequence of their own ---
  Paused,  // it stands still, and wakes up as if nothing had been
  // --- of what a session or a trainer leaves; drawn from a sequence of their own (left.cpp) ---
  UnmountCut,     // the agent is killed in an unmount that the kernel ends only later
  ProcessesLeft,  // of a trainer that ended: not even SIGKILL ends them
  OthersStop,     // the trainer is asked to stop by somebody else: needrestart, an administrator
  Count
};

constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::Count);
constexpr std::size_t kFirstShareFault = static_cast<std::size_t>(Fault::ShareSilent);
constexpr std::size_t kFirstGpuFault = static_cast<std::size_t>(Fault::GpusAbsent);

std::string_view name(Fault fault);

struct Menu {
  std::bitset<kFaults> on;
  double call_fails = 0;  // share of EC2 calls: throttled, lost, or carried out without an answer
  double look_fails = 0;  // share of metadata and local work
  Duration lag{0};
  Duration between = std::chrono::minutes(5);  // mean time between two timed faults
  int fleet = 1;                               // target capacity
  bool has(Fault fault) const { return on[static_cast<std::size_t>(fault)]; }
  void set(Fault fault, bool wanted) { on[static_cast<std::size_t>(fault)] = wanted; }
};

}  // namespace spotter::simulate
