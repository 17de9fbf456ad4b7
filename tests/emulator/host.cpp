#include "tests/emulator/host.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "tests/emulator/process_tree.hpp"

namespace spotter::emulator {
namespace {

constexpr std::chrono::milliseconds settle_interval{10};
constexpr std::chrono::milliseconds watch_interval{200};

// "/dev/sdf" is seen as /dev/xvdf.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
std::string xen_name(const std::string& device) {
  const std::string name = device.substr(device.rfind('/') + 1);
  return name.starts_with("sd") ? "xvd" + name.substr(2) : name;
}

}  // namespace

Host::Host(boost::asio::io_context& context, MachineSettings settings, Machines::Handlers handlers,
           std::function<void(const VolumeId&, bool)> mounted)
    : disks_(settings.directory, settings.kind->disks()),
      machines_(context, std::move(settings), std::move(handlers)),
      mounted_(std::move(mounted)),
      settling_(context),
      watching_(context) {
  machines_.devices_of = [this](const InstanceId& id) {
    std::vector<std::string> numbers;
    for (const auto& [volume, holder] : holders_)
      if (const auto* device = disks_.device(volume); device != nullptr && holder == id)
        numbers.push_back(device->device_number());
    return numbers;
  };
}

void Host::reset() {
  machines_.kill_all();
  holders_.clear();
  disks_.forget();
}

void Host::perform(const world::Occurrence& occurrence) {
  const auto done = std::visit([this](const auto& it) { return on(it); }, occurrence);
  if (!done) spdlog::error("{}", done.error().message);
}

Result<void> Host::on(const world::InstanceShuttingDown& it) {
  machines_.shut_down(it.id);
  return {};
}

Result<void> Host::on(const world::InstanceKilled& it) {
  machines_.kill(it.id);
  spdlog::info("{} is dead", it.id.view());
  return {};
}

Result<void> Host::on(const world::VolumeMade& it) {
  std::optional<world::ColdReads::Of> cold;
  if (it.cold)
    cold = {.request = it.cold->request,
            .rate = static_cast<double>(it.initialization_rate.value_or(0)),
            .throughput = static_cast<double>(it.throughput.value_or(0)),
            .mebibytes = it.cold->gibibytes << 10};
  return disks_.make(it.id, it.from, it.gibibytes, cold);
}

Result<void> Host::on(const world::VolumeRemoved& it) {
  holders_.erase(it.id);
  return disks_.remove(it.id);
}

Result<void> Host::on(const world::SnapshotTaken& it) {
  // A folder has no "as of now" while somebody writes into it.
  const auto holder = holders_.find(it.volume);
  const bool stand_still = holder != holders_.end() && disks_.device(it.volume) == nullptr;
  const auto frozen = stand_still ? machines_.freeze(holder->second) : std::vector<pid_t>{};
  auto taken = disks_.take_snapshot(it.id, it.volume);
  thaw(frozen);
  return taken;
}

Result<void> Host::on(const world::DeviceAttached& it) {
  holders_[it.volume] = it.instance;
  auto attached = disks_.attach(
      it.volume, machines_.devices(it.instance),
      it.by_name ? std::filesystem::path(xen_name(it.device)) : device_link(it.volume));
  settle_disks();
  return attached;
}

Result<void> Host::on(const world::DeviceDetached& it) {
  holders_.erase(it.volume);
  disks_.detach(it.volume);
  return {};
}

void Host::settle_disks() {
  if (!disks_.settle()) return;
  settling_.expires_after(settle_interval);
  settling_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) settle_disks();
  });
}

bool Host::is_mounted(const VolumeId& volume, const InstanceId& instance) {
  const auto* const device = disks_.device(volume);
  return device != nullptr && !machines_.mount_points(instance, device->device_number()).empty();
}

void Host::watch_mounts() {
  bool any = false;
  const auto holders = holders_;  // what is listed may detach at once
  for (const auto& [volume, instance] : holders) {
    const bool mounted = is_mounted(volume, instance);
    mounted_(volume, mounted);
    any = any || mounted;
  }
  if (!any) return;
  watching_.expires_after(watch_interval);
  watching_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) watch_mounts();
  });
}

}  // namespace spotter::emulator
