// Where on this machine is the volume? By its serial, never by a name alone on Nitro.
// https://docs.aws.amazon.com/ebs/latest/userguide/identify-nvme-ebs-device.html
#pragma once

#include <filesystem>
#include <string>

#include "agent/host/failure.hpp"
#include "agent/host/machine.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

// The path of the block device (or, for ordinary-user emulation, directory) with symlinks resolved.
// Looked for every 100 ms until `wait` is over. In this order: the by-id symlink, the serials of
// the NVMe disks in sysfs, and, where the machine has no NVMe disk of EBS at all (Xen), the hint.
// Kinds: "device-absent", "bad-request" (not a volume id).
Result<std::filesystem::path> find_device(const verbs::FindDevice& asked,
                                          const Machine& machine = {});

// The other way round: vol-... of a device by its serial or by-id symlink; empty when neither says.
std::string volume_of(const std::filesystem::path& device,
                      const std::filesystem::path& devices = "/dev",
                      const std::filesystem::path& sysfs = "/sys");

// A file of sysfs without the blanks and NULs around its text; empty when it cannot be read.
std::string attribute_in_sysfs(const std::filesystem::path& path);

}  // namespace spotter::act::host
