// Carries out on this machine what the world says has happened: instances are processes, volumes
// are disks. Root mode: namespaces and loop devices. User mode: subreapers and folders.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <string>

#include "tests/emulator/disks.hpp"
#include "tests/emulator/machines.hpp"
#include "tests/world/occurrence.hpp"

namespace spotter::emulator {

class Host {
 public:
  // `mounted(volume, yes)` is called when a volume's file system is mounted in its instance or is
  // no more (root mode), as far as watch() and later looks have seen.
  Host(boost::asio::io_context& context, MachineSettings settings, Machines::Handlers handlers,
       std::function<void(const VolumeId&, bool)> mounted);

  // See Disks.
  Result<void> mount_cold_files(double time_scale) { return disks_.mount_cold_files(time_scale); }

  // A failure is logged: the world goes on, as the cloud does when a host is ill.
  void perform(const world::Occurrence& occurrence);

  // Looks which attached volumes are mounted, now and again until they are not. To be called before
  // a DetachVolume is answered: EC2 leaves a mounted volume "busy".
  void watch_mounts();

  // Ends all instances and forgets the disks, whose files somebody else removes.
  void reset();

  Machines& machines() { return machines_; }

 private:
  Result<void> on(const world::InstanceStarted& it) { return machines_.start(it); }
  Result<void> on(const world::InstanceShuttingDown& it);
  Result<void> on(const world::InstanceKilled& it);
  Result<void> on(const world::VolumeMade& it);
  Result<void> on(const world::VolumeGrown& it) { return disks_.grow(it.id, it.gibibytes); }
  Result<void> on(const world::VolumeRemoved& it);
  Result<void> on(const world::SnapshotTaken& it);
  Result<void> on(const world::SnapshotCopied& it) { return disks_.copy_snapshot(it.id, it.from); }
  Result<void> on(const world::SnapshotRemoved& it) { return disks_.remove_snapshot(it.id); }
  Result<void> on(const world::DeviceAttached& it);
  Result<void> on(const world::DeviceDetached& it);
  void settle_disks();
  bool is_mounted(const VolumeId& volume, const InstanceId& instance);

  Disks disks_;
  Machines machines_;
  std::function<void(const VolumeId&, bool)> mounted_;
  std::map<VolumeId, InstanceId> holders_;  // attached volumes
  boost::asio::steady_timer settling_;
  boost::asio::steady_timer watching_;
};

}  // namespace spotter::emulator
