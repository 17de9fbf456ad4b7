// The mount and network namespaces of an instance, which its init sets up. Needs root; every
// function fails with errno's reason.
#pragma once

#include <cstdint>

#include "agent/base/result.hpp"

namespace spotter::emulator {

// True when this process may make namespaces (asks by making one in a child).
bool can_make_namespaces();

// Mounts made from here on are seen by nobody else, and /proc shows this pid namespace.
Result<void> isolate_mounts();

// The loopback interface up, with 169.254.169.254/32 on it besides 127.0.0.1/8.
Result<void> bring_up_loopback();

// A listening TCP socket; the caller closes it.
Result<int> listen_on(const char* address, std::uint16_t port);

// Gives up a mounted file system as a power cut would: what was not written yet is lost, further
// writes fail. xfs and ext4 (FS_IOC_SHUTDOWN, linux/fs/xfs/libxfs/xfs_fs.h XFS_IOC_GOINGDOWN).
Result<void> cut_power(const char* mount_point);

}  // namespace spotter::emulator
