#include "agent/decide/data_volume.hpp"

#include <algorithm>

namespace spotter::decide {

using Kind = DataStep::Kind;

struct DataVolume::Choice {
  const SeenVolume* mine = nullptr;
  const SeenVolume* free = nullptr;
  const SeenVolume* leaving = nullptr;  // another instance
};

namespace {

bool is_better(const SeenVolume& volume, const SeenVolume* than) {
  if (!than) return true;
  const bool ready = volume.state == VolumeState::Available;
  const bool other = than->state == VolumeState::Available;
  return ready != other ? ready : volume.id < than->id;
}

}  // namespace

DataVolume::Choice DataVolume::choose(const std::vector<SeenVolume>& seen) const {
  Choice choice;
  for (const SeenVolume& volume : seen) {
    const bool gone = volume.state == VolumeState::Deleting || volume.state == VolumeState::Error;
    if (gone || volume.from != snapshot_ || volume.zone != zone_) continue;
    const bool attached = volume.attachment == AttachmentState::Attached;
    if (volume.holder == self_) {
      if (!choice.mine || attached) choice.mine = &volume;
    } else if (!volume.holder) {
      if (is_better(volume, choice.free)) choice.free = &volume;
    } else if (volume.attachment == AttachmentState::Detaching) {
      choice.leaving = &volume;
    }
  }
  return choice;
}

// Has this one been waited for as long as a change ever takes?
bool DataVolume::waited(VolumeId volume, Time now, const Policy& policy) {
  if (changing_ != volume) {
    changing_ = volume;
    since_ = now;
  }
  return now - since_ >= policy.attaching_limit;
}

void DataVolume::made(VolumeId volume, Time now) {
  if (made_ != volume) made_at_ = now;
  made_ = volume;
}

DataStep DataVolume::next(const std::vector<SeenVolume>& seen, Time now, const Policy& policy) {
  const auto [mine, free, leaving] = choose(seen);
  if (mine && mine->attachment == AttachmentState::Attached && mine->id != absent_) {
    return {Kind::Use, mine->id, 0, mine->attached_as};
  }
  if (mine && !waited(mine->id, now, policy)) {
    if (mine->id != absent_) return {};
    absent_ = {};
    ++names_;
    return {Kind::Detach, mine->id, 0, {}};
  }
  if (mine && mine->attachment != AttachmentState::Detaching) {
    since_ = now;  // the detach has its own time
    absent_ = {};
    ++names_;
    return {Kind::Detach, mine->id, 0, {}};
  }
  if (free && free->state == VolumeState::Available) return {Kind::Attach, free->id, names_, {}};
  if (free) return {};
  if (leaving && !waited(leaving->id, now, policy)) return {};
  return make(seen, now, policy);
}

DataStep DataVolume::make(const std::vector<SeenVolume>& seen, Time now, const Policy& policy) {
  const bool shown = std::any_of(seen.begin(), seen.end(),
                                 [&](const SeenVolume& volume) { return volume.id == made_; });
  if (made_ && !shown && now - made_at_ < policy.consistency_bound) return {};
  if (made_ && !shown && ++vanished_ > 1) return {Kind::Vanished, made_, 0, {}};
  // EC2 would answer the same ClientToken with the volume that is gone.
  if (made_) ++attempt_;
  made_ = {};
  return {Kind::Make, {}, attempt_, {}};
}

}  // namespace spotter::decide
