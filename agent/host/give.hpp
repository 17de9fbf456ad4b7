// Files that change their owner: a user has another number on another image.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "agent/host/failure.hpp"
#include "agent/io/beneath.hpp"

namespace spotter::act::host {

struct Owner {
  uid_t uid;
  gid_t gid;
};

struct Giving {
  Owner from;
  Owner to;
  std::string skipped;  // a name at the top
  // What lies there may be others': only files of `from.uid` are given, and none that has another
  // name, which may lie in a place of somebody else's. On a volume all is the job's, and no name of
  // a file leads off it.
  bool shared = false;
};

// Gives what belongs to `from` below `directory` to `to`: never follows a symlink, never leaves the
// file system. Each file is opened, looked at and given by that handle. Answers how many. Kinds:
// "too-many-files", those of fail_errno.
Result<std::uint64_t> give_files(const io::Beneath& directory, const Giving& giving);

}  // namespace spotter::act::host
