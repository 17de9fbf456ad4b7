// A file's content: its sum, and a copy of it. Internal to guard.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "agent/base/result.hpp"
#include "agent/io/beneath.hpp"

namespace spotter::guard {

// Of the first `bytes` bytes. Fails when there are fewer.
Result<std::string> sum_of_file(int file, std::uint64_t bytes);

// Makes `name` in `folder` (replacing it), with owner, permissions and times of `status`, but
// without its set-user-id and set-group-id bits: shares the blocks where the file system can (xfs),
// else copies, and only where as much room is left again; fsynced.
Result<void> copy_file(int from, const struct stat& status, const io::Beneath& folder,
                       const std::string& name);

}  // namespace spotter::guard
