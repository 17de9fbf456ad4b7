// How a volume of one snapshot comes to be attached here: pure, asked after every look, by
// service/act/data_volumes.cpp and by the simulator. A free one in this zone is taken, one that is
// being let go of is waited for, and where all are in other hands another is made: nobody is
// fenced, for nothing is ever written to them.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/base/names.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/survey.hpp"

namespace spotter::decide {

struct DataStep {
  enum class Kind : std::uint8_t {
    Wait,
    Make,      // and say made(), or burned() when the ClientToken was
    Attach,    // when that is refused: refused()
    Detach,    // it hangs, or its device does not appear
    Use,       // it is attached; when its device is not there: absent()
    Vanished,  // what is made is gone again: a key that may not be used
  } kind = Kind::Wait;
  VolumeId volume;
  std::uint32_t attempt = 0;  // Make: part of the ClientToken; Attach: chooses the device's name
  ShortText<31> attached_as;
};

// Lies in nobody's hands: it may be deleted.
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
  VolumeId changing_;  // which is attaching or detaching, and is waited for ...
  Time since_;         // ... since then
};

}  // namespace spotter::decide
