// The first read of a volume that was made of a snapshot. EBS fetches a block when it is first
// touched: that takes tens of milliseconds, of many blocks at once no longer than of one.
#pragma once

#include "agent/io/safe_directory.hpp"

namespace spotter::act::host {

// Enough for all that EBS gives: users see about 5 MiB/s of each request, and 75 of all together.
inline constexpr std::size_t reads_at_once = 64;

// Reads the files of the folder, so that whoever reads them next finds them in memory. Answers how
// many bytes it has read, and never fails: whoever needs a file finds what is wrong with it. No
// link is followed, and no more is read of a file than it has on the disk.
std::uint64_t read_cold(const io::SafeDirectory& folder, const std::vector<std::string>& names);

}  // namespace spotter::act::host
