// The steps that attach a volume of one snapshot to this instance. Pure;
// service/act/data_volumes.cpp and the simulator ask for the next step after every survey. A free
// volume in this zone is attached, one that is detaching is waited for; where other instances use
// all of them, another is made. Nothing is ever written to them, so no instance is fenced.
#pragma once

#include "agent/decide/policy.hpp"
#include "agent/decide/survey.hpp"

namespace spotter::decide {

struct DataStep {
  enum class Kind : std::uint8_t {
    Wait,
    Make,      // then call made(), or burned() when the ClientToken was used up
    Attach,    // call refused() when EC2 refuses it
    Detach,    // the attachment is stuck, or its device does not appear
    Use,       // it is attached; call absent() when its device is not there
    Vanished,  // EC2 made it and removed it: the instance's role may not use its key
  } kind = Kind::Wait;
  VolumeId volume;
  std::uint32_t attempt = 0;  // Make: part of the ClientToken; Attach: chooses the device's name
  ShortText<31> attached_as;
};

// No instance has it attached: it may be deleted.
inline bool is_free(const SeenVolume& volume) {
  return !volume.holder &&
         (volume.state == VolumeState::Available || volume.state == VolumeState::Error);
}

class DataVolume {
 public:
  DataVolume(SnapshotId snapshot, Zone zone, InstanceId self)
      : snapshot_(snapshot), zone_(zone), self_(self) {}

  // `seen`: the job's volumes of data, as EC2 shows them at `now`.
  DataStep next(const std::vector<SeenVolume>& seen, Time now, const Policy& policy);
  void made(VolumeId volume, Time now);
  void burned() { ++attempt_; }
  void refused() { ++names_; }
  void absent(VolumeId volume) { absent_ = volume; }

 private:
  struct Choice;
  Choice choose(const std::vector<SeenVolume>& seen) const;
  DataStep make(const std::vector<SeenVolume>& seen, Time now, const Policy& policy);
  bool waited(VolumeId volume, Time now, const Policy& policy);

  SnapshotId snapshot_;
  Zone zone_;
  InstanceId self_;
  std::uint32_t attempt_ = 0;
  std::uint32_t names_ = 0;
  std::uint32_t vanished_ = 0;
  VolumeId made_;
  Time made_at_;
  VolumeId absent_;
  VolumeId changing_;  // which is attaching or detaching, and waited for ...
  Time since_;         // ... since then
};

}  // namespace spotter::decide
