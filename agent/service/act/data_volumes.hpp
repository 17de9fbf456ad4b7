// The volumes of data: EC2 and the host in one effect, as the core decides nothing in between.
// decide/data_volume.hpp decides the next step of each volume.
#pragma once

#include "agent/decide/data_volume.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/act/local.hpp"

namespace spotter::act {

class DataVolumes {
 public:
  using Answer = asio::awaitable<decide::Happening>;

  DataVolumes(AwsClient& aws, Local& local, const config::Job& job, const decide::Policy& policy)
      : aws_(aws), local_(local), job_(job), policy_(policy) {}

  // Finds or makes each volume in the zone, attaches it and mounts it read-only; succeeds once all
  // are mounted. Keeps what is mounted already, and refuses a mount point that another volume has.
  // Returns EffectFailed, unsettled, if that is not done within `limit`.
  Answer prepare(decide::PrepareData effect, Duration limit);
  // Makes prepare() end soon; Asio's cancellation does not reach beyond its first child process.
  void abandon() { abandoned_ = true; }
  // Succeeds once none is mounted here and EC2 has accepted the detach of this instance's.
  // `remove`: once those are detached and deleted, and with them all free ones whose tag
  // `spotter:storage` says that they are this job's.
  Answer release(decide::ReleaseData effect, Duration limit);

 private:
  using Failed = std::optional<decide::EffectFailed>;
  struct Entry;
  asio::awaitable<Result<std::vector<decide::SeenVolume>, decide::EffectFailed>> look();
  asio::awaitable<Failed> bring(Entry& entry, const std::vector<decide::SeenVolume>& seen,
                                const decide::PrepareData& effect);
  asio::awaitable<Failed> make(Entry& entry, std::uint32_t attempt,
                               const decide::PrepareData& effect);
  asio::awaitable<Failed> attach(Entry& entry, VolumeId volume, std::uint32_t attempt,
                                 InstanceId self);
  asio::awaitable<Failed> mount(Entry& entry, VolumeId volume, ShortText<31> attached_as);
  asio::awaitable<Failed> release(VolumeId volume, InstanceId self);
  asio::awaitable<Failed> remove(VolumeId volume);
  Answer unmount(Duration limit);
  bool is_named(const SnapshotId& snapshot) const;
  Failed take_mounted(Entry& entry, const std::vector<decide::SeenVolume>& seen,
                      const InstanceId& self) const;

  AwsClient& aws_;
  Local& local_;
  const config::Job& job_;
  const decide::Policy& policy_;
  bool abandoned_ = false;
};

}  // namespace spotter::act
