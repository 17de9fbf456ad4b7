// The machine's own disks, whose content ends with it: a place for what can be fetched again.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ssd-instance-store.html
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/host/failure.hpp"
#include "agent/host/user.hpp"

namespace spotter::act::host {

struct CacheRequest {
  std::filesystem::path
      folder;  // MOUNT/JOB: the disk is mounted on MOUNT, the folder is the user's
  std::filesystem::path devices = "/dev";
  std::filesystem::path sysfs = "/sys";
};

// Device nodes of the instance store's NVMe disks, the largest first. By their model: their serials
// begin with AWS, and their names say nothing.
std::vector<std::filesystem::path> instance_store_disks(const std::filesystem::path& devices,
                                                        const std::filesystem::path& sysfs);

// One of them is mounted there, or was before; a blank one gets a file system (XFS, else ext4) with
// a label of ours, one with another content is somebody's and left alone. Where the image has
// mounted them itself (AWS's Deep Learning AMIs: /opt/dlami/nvme) that is for who knows them.
// Answers words for a person. Kinds: "cache-absent" (no such disk, or none that is free), those of
// format() and mount(), those of fail_errno.
Result<std::string> make_cache(const CacheRequest& request, const User& user);

}  // namespace spotter::act::host
