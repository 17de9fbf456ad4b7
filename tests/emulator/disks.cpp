#include "tests/emulator/disks.hpp"

#include <spdlog/spdlog.h>

#include <fstream>
#include <system_error>
#include <utility>

#include "tests/emulator/file_copy.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;

fs::path device_link(const VolumeId& volume) {
  std::string serial = volume.str();  // the serial is the volume's id without the dash
  if (const auto dash = serial.find('-'); dash != std::string::npos) serial.erase(dash, 1);
  return fs::path("disk/by-id") / ("nvme-Amazon_Elastic_Block_Store_" + serial);
}

Disks::Disks(fs::path directory, Kind kind) : directory_(std::move(directory)), kind_(kind) {}

fs::path Disks::volume_path(const VolumeId& volume) const {
  return directory_ / "volumes" / volume.str();
}

fs::path Disks::snapshot_path(const SnapshotId& snapshot) const {
  return directory_ / "snapshots" / snapshot.str();
}

Result<void> Disks::mount_cold_files(double time_scale) {
  if (!has_loops()) return failure("only loop devices can be slow");
  auto files = ColdFiles::mount(directory_, time_scale);
  if (!files) return tl::unexpected(files.error());
  cold_files_.emplace(*std::move(files));
  time_scale_ = time_scale;
  return {};
}

void Disks::forget() {
  attached_.clear();
  releasing_.clear();
  if (!cold_files_) return;
  cold_files_.reset();  // it knows the warm blocks of volumes whose ids come again
  if (const auto again = mount_cold_files(time_scale_); !again)
    spdlog::error("{}", again.error().message);
}

fs::path Disks::file_of(const VolumeId& volume) const {
  const auto slow = cold_files_ ? cold_files_->path_of(volume) : std::nullopt;
  return slow.value_or(volume_path(volume));
}

Result<void> Disks::make(const VolumeId& volume, const std::optional<SnapshotId>& from,
                         std::uint64_t gibibytes, const std::optional<world::ColdReads::Of>& cold) {
  const fs::path path = volume_path(volume);
  if (from && !fs::exists(snapshot_path(*from)))
    return failure("volume " + volume.str() + ": its snapshot " + from->str() + " has no content");
  if (from)
    if (auto copied = copy_as_of_now(snapshot_path(*from), path); !copied) return copied;
  std::error_code failed;
  if (kind_ == Kind::Folders) {
    fs::create_directory(path, failed);
  } else {
    std::ofstream(path, std::ios::app).close();
    fs::resize_file(path, gibibytes << 30, failed);
  }
  if (failed) return failure(path.string() + ": " + failed.message());
  if (cold && cold_files_) return cold_files_->add(volume, *cold);
  return {};
}

Result<void> Disks::grow(const VolumeId& volume, std::uint64_t gibibytes) {
  if (kind_ == Kind::Folders) return {};
  std::error_code failed;
  fs::resize_file(volume_path(volume), gibibytes << 30, failed);
  if (failed) return failure(volume_path(volume).string() + ": " + failed.message());
  const LoopDevice* const attached = device(volume);
  return attached == nullptr ? Result<void>() : attached->take_size();
}

Result<void> Disks::remove(const VolumeId& volume) {
  detach(volume);
  if (cold_files_) cold_files_->remove(volume);
  std::error_code failed;
  fs::remove_all(volume_path(volume), failed);
  if (failed) return failure(volume_path(volume).string() + ": " + failed.message());
  return {};
}

Result<void> Disks::take_snapshot(const SnapshotId& snapshot, const VolumeId& volume) {
  if (const auto* attached = device(volume))
    if (auto synced = attached->sync(); !synced) return synced;
  return copy_as_of_now(volume_path(volume), snapshot_path(snapshot));
}

Result<void> Disks::copy_snapshot(const SnapshotId& snapshot, const SnapshotId& from) {
  return copy_as_of_now(snapshot_path(from), snapshot_path(snapshot));
}

Result<void> Disks::remove_snapshot(const SnapshotId& snapshot) {
  std::error_code failed;
  fs::remove_all(snapshot_path(snapshot), failed);
  if (failed) return failure(snapshot_path(snapshot).string() + ": " + failed.message());
  return {};
}

Result<void> Disks::connect(const VolumeId& volume, Attached& attached) {
  fs::path target = file_of(volume);
  std::error_code failed;
  fs::create_directories(attached.link.parent_path(), failed);
  if (has_loops()) {
    auto device = LoopDevice::attach(target);
    if (!device) return tl::unexpected(device.error());
    target = device->path();
    attached.device = std::move(*device);
  }
  if (kind_ == Kind::Nodes) {
    const auto name = target.filename();
    attached.node = attached.link.parent_path() / "../nodes" / name;
    if (auto made = attached.device->make_node(attached.node); !made) return made;
    target = "../nodes" / name;
  }
  fs::remove(attached.link, failed);
  fs::create_symlink(target, attached.link, failed);
  if (failed) return failure(attached.link.string() + ": " + failed.message());
  return {};
}

Result<void> Disks::attach(const VolumeId& volume, const fs::path& devices, const fs::path& link) {
  detach(volume);
  Attached& attached = attached_[volume];
  attached.link = devices / link;
  if (still_bound(volume)) return {};
  releasing_.erase(volume);
  return connect(volume, attached);
}

void Disks::detach(const VolumeId& volume) {
  const auto found = attached_.find(volume);
  if (found == attached_.end()) return;
  std::error_code ignored;
  fs::remove(found->second.link, ignored);
  if (!found->second.node.empty()) fs::remove(found->second.node, ignored);
  if (found->second.device) releasing_[volume] = found->second.device->number();
  attached_.erase(found);
}

bool Disks::still_bound(const VolumeId& volume) const {
  const auto found = releasing_.find(volume);
  return found != releasing_.end() && backing_file(found->second) == file_of(volume).string();
}

bool Disks::settle() {
  std::erase_if(releasing_, [&](const auto& entry) { return !still_bound(entry.first); });
  bool waiting = false;
  for (auto& [volume, attached] : attached_) {
    if (!has_loops() || attached.device) continue;
    if (releasing_.contains(volume)) {
      waiting = true;
    } else if (auto connected = connect(volume, attached); !connected) {
      spdlog::error("attach {}: {}", volume.view(), connected.error().message);
    }
  }
  return waiting;
}

const LoopDevice* Disks::device(const VolumeId& volume) const {
  const auto found = attached_.find(volume);
  return found != attached_.end() && found->second.device ? &*found->second.device : nullptr;
}

}  // namespace spotter::emulator
