// The volumes of data: EC2 and the host in one piece of work, for nothing of it is to be decided in
// between. What is to be done next with each is said by decide/data_volume.hpp.
#pragma once

#include <functional>
#include <vector>

#include "agent/decide/data_volume.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/act/local.hpp"

namespace spotter::act {

class DataVolumes {
 public:
  using Answer = asio::awaitable<decide::Happening>;
  using Clock = std::function<Time()>;

  DataVolumes(AwsClient& aws, Local& local, const config::Job& job, const decide::Policy& policy,
              Clock now)
      : aws_(aws), local_(local), job_(job), policy_(policy), now_(std::move(now)) {}

  // Mounted when all are: found or made in the zone, attached, mounted read-only. What is there
  // already stays; what is of another volume is somebody else's, and refused. EffectFailed and
  // unsettled: not within `limit`.
  Answer prepare(decide::PrepareData effect, Duration limit);
  // prepare() ends soon. Asio's cancellation does not reach beyond its first child process.
  void abandon() { abandoned_ = true; }
  // Unmounted when none is mounted here any more, and the detach of those of this instance was
  // accepted. `remove`: when those are gone, and with them all that lie free and say by their tag
  // `spotter:storage` that they are this job's.
  Answer release(decide::ReleaseData effect, Duration limit);

 private:
  using Failed = std::optional<decide::EffectFailed>;
  struct Entry;
  asio::awaitable<tl::expected<std::vector<decide::SeenVolume>, decide::EffectFailed>> look();
  asio::awaitable<void> pause();
  asio::awaitable<Failed> bring(Entry& entry, const std::vector<decide::SeenVolume>& seen,
                                const decide::PrepareData& effect);
  asio::awaitable<Failed> make(Entry& entry, std::uint32_t attempt,
                               const decide::PrepareData& effect);
  asio::awaitable<Failed> attach(Entry& entry, VolumeId volume, std::uint32_t attempt,
                                 InstanceId self);
  asio::awaitable<Failed> mount(Entry& entry, VolumeId volume, ShortText<31> attached_as);
  asio::awaitable<Failed> let_go(VolumeId volume, InstanceId self);
  asio::awaitable<Failed> remove(VolumeId volume);
  Answer unmount(Duration limit);
  bool is_named(const SnapshotId& snapshot) const;
  Failed take_mounted(Entry& entry, const std::vector<decide::SeenVolume>& seen,
                      const InstanceId& self) const;

  AwsClient& aws_;
  Local& local_;
  const config::Job& job_;
  const decide::Policy& policy_;
  Clock now_;
  bool abandoned_ = false;
};

}  // namespace spotter::act
