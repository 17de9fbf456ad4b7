// The job's storage at one look: volumes, snapshots, and the fence's epoch.
//
// A fence says who may use a job's volume, and which volume that is: one object in a store that
// shows each write at once and takes none that did not see the one before it (spotter-storage(7),
// "A fence").
#pragma once

#include <vector>

#include "agent/base/names.hpp"

namespace spotter::decide {

struct Epoch {
  enum class State : std::uint8_t {
    Using,     // the holder trains on the volume, or is about to
    Moving,    // the holder makes a copy in its zone; nobody writes to the volume
    Released,  // nobody uses it: whoever comes first writes the next epoch
    Done,      // the result is durable
  };
  static constexpr std::string_view keys = "state! epoch! line volume generation holder! left";
  State state = State::Released;
  std::uint32_t number = 0;  // one more with each write; 0: none was ever written
  VolumeId line;             // the job's first volume: whose epoch this is
  VolumeId volume;           // the job's
  // The volume's: one more with each use. A snapshot of an earlier one lacks what was written
  // since.
  std::uint32_t generation = 0;
  InstanceId holder;
  VolumeId left;  // the original of the last move, to be deleted; empty: none
};
constexpr std::array<const char*, 4> words_of(Epoch::State) {
  return {"using", "moving", "released", "done"};
}

// The job's storage as EC2 describes it at one time.

// EC2's volume states (API reference: Volume), those of a volume that is about to vanish as
// Deleting.
enum class VolumeState : std::uint8_t { Creating, Available, InUse, Deleting, Error };
enum class AttachmentState : std::uint8_t { None, Attaching, Attached, Detaching, Busy };
// Gone: terminated, or unknown to EC2 although it was asked for by id. More follows from it for an
// epoch's holder, so only a terminated holder is Gone, which is final; the other is Unknown.
enum class HolderState : std::uint8_t { Alive, Stopped, Gone, Unknown };
enum class SnapshotState : std::uint8_t { Pending, Completed, Failed, Recoverable };

// The tag `spotter:role`. A volume that a user made and tagged for discovery has none: it is State.
enum class Role : std::uint8_t { State, Candidate, Verified };

// The tag `spotter:fence`: none, that of the fence that job.yaml names, or another.
enum class FenceTag : std::uint8_t { None, Ours, Other };

struct SeenVolume {
  VolumeId id;
  Zone zone;
  VolumeState state = VolumeState::Available;
  bool discoverable = false;  // carries the tag by which job.yaml names the volume
  Role role = Role::State;
  VolumeId parent;               // tag spotter:parent
  VolumeId lineage;              // tag spotter:lineage; empty: see line_of()
  std::uint32_t moves = 0;       // tag spotter:moves: between the job's first volume and this
  std::uint32_t generation = 0;  // tag spotter:generation
  bool ours_to_format = false;   // tag spotter:format = blank
  bool done = false;             // tag spotter:done
  SnapshotId from;
  AttachmentState attachment = AttachmentState::None;
  InstanceId holder;
  ShortText<31> attached_as;  // the device name of the attachment; the kernel's name only on Xen
  HolderState holder_state = HolderState::Alive;
  FenceTag fence = FenceTag::None;
  bool named = true;  // of the epoch's volume: its tags say, too, that it is the job's
};

// When a snapshot was taken, and by whom (tag spotter:ahead). A move makes its copy of one that has
// all that was written in its generation.
enum class Taken : std::uint8_t {
  Moving,    // by who moves the volume, which nobody used
  InUse,     // by who trained on it, so that EBS copies less when it moves
  Released,  // by who had just unmounted it after a notice: nobody needs to be moving it yet
};

struct SeenSnapshot {
  SnapshotId id;
  VolumeId parent;               // the volume that it was made of
  std::uint32_t generation = 0;  // the volume's generation when it was taken
  SnapshotState state = SnapshotState::Pending;
  std::int64_t started = 0;  // seconds since the epoch, EC2's clock: only ever compared
  Taken taken = Taken::Moving;
  Duration age{0};              // since `started`, by EC2's clock
  VolumeId lineage = {};        // tag spotter:lineage; empty: see line_of()
  std::uint32_t moves = 0;      // those of the volume
  std::uint64_t gibibytes = 0;  // of the volume; what EBS bills is less, or as much
};

// A copy that a move made, and that is not the job's yet, or never was.
inline bool is_copy(const SeenVolume& volume) {
  return volume.role != Role::State && !volume.discoverable;
}

// The first volume of the job that it belongs to. That id stands for the job: EC2 gives it to no
// other. All that is made for the job carries it in `spotter:lineage` from its creation, so that
// two jobs of one name are never taken for one. A volume or snapshot without the tag is a first
// volume, or older than the tag: then its parent is all that it says.
inline VolumeId line_of(const SeenVolume& volume) {
  if (volume.lineage) return volume.lineage;
  return is_copy(volume) ? volume.parent : volume.id;
}
inline VolumeId line_of(const SeenSnapshot& snapshot) {
  return snapshot.lineage ? snapshot.lineage : snapshot.parent;
}

// Volumes with the discovery tag or with the job's tag, and the job's snapshots. Those of data
// (`spotter:role` = data) are apart: none of them is ever the job's own, or a copy of it.
struct Survey {
  std::vector<SeenVolume> volumes;
  std::vector<SeenSnapshot> snapshots;
  std::vector<SeenVolume> data = {};
  VolumeId epoch_line = {};  // whose epoch was read, after the rest: line_in()
  Epoch epoch = {};
  HolderState epoch_holder = HolderState::Alive;
  // A home in a bucket: what this session writes as the holder. Outside EC2 it is no instance.
  InstanceId epoch_self = {};
  // The home of an experiment: a later claim than this session's was at it a moment ago.
  bool later_claim = false;
};

// The line of the job's volume; `known` when EC2 shows none, or that of what is left of one. Empty:
// nothing is left, or of several.
VolumeId line_in(const Survey&, const VolumeId& known);

}  // namespace spotter::decide
