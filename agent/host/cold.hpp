// The first read of a volume that was made of a snapshot. EBS fetches a block when it is first
// touched: that takes tens of milliseconds, of many blocks at once no longer than of one.
#pragma once

#include "agent/io/safe_directory.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

// Enough for all that EBS gives: users see about 5 MiB/s of each request, and 75 of all together.
inline constexpr std::size_t reads_at_once = 64;

// Reads the files of the folder, so that whoever reads them next finds them in memory. Answers how
// many bytes it has read, and never fails: whoever needs a file finds what is wrong with it. No
// link is followed, and no more is read of a file than it has on the disk.
std::uint64_t read_cold(const io::SafeDirectory& folder, const std::vector<std::string>& names);

// These share EBS's touches with what a trainer reads itself: they take half of what users see, and
// of the blocks that are warm by now no more than half of what a gp3 volume gives.
inline constexpr std::size_t reads_behind = 8;
inline constexpr std::chrono::milliseconds least_read{32};  // of 256 KiB: 62 MiB/s of them all

struct Warmth {
  static constexpr std::string_view keys = "at read total";
  std::uint64_t at = 0;     // the offset on the disk up to which it was read
  std::uint64_t read = 0;   // bytes, of all that the file system had allocated
  std::uint64_t total = 0;  // the same as `read`: all is, or was before
};

// Reads the blocks of the disk itself, past the page cache: no file is open meanwhile, so the mount
// is free to go. It is done with the lowest priority for processor and disk, which this process
// keeps. A record on the job's volume, with the ids of what was all read, says so to the next
// call; a copy has another id. Kind: "not-known" (the file system does not say what it has
// allocated, or is no disk's).
Result<Warmth> warm(const verbs::Warm& request);

}  // namespace spotter::act::host
