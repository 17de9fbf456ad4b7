// Brings what `prepare:` of job.yaml names onto the volume that is mounted.
#pragma once

#include <functional>

#include "agent/config/prepare.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::command {

using Stopping = std::function<bool()>;

struct Filled {
  config::Source source;
  std::size_t files = 0;
  std::size_t fetched = 0;  // of them, now
  std::uint64_t bytes = 0;  // that came, now
};

// Each source's files in their folder, whole and durable, as the user's; what is there already is
// not fetched again. Then the manifest, .spotter/prepared.json. `said`: one line for each source
// that is there. REQUIRES: the volume is mounted and laid out.
Result<std::vector<Filled>> fill(const verbs::Fill& request, const Stopping& stop,
                                 const std::function<void(const std::string&)>& said);

struct CopyRequest {
  std::string from;    // a folder, or one file; read as who we are
  std::string to;      // a folder; written as `user`
  std::string ledger;  // what is whole: data/fetched.hpp
  std::string user;
};
// Written, made durable, read again from the disk and compared; a link is followed to a file, and
// not to a folder.
Result<Filled> copy_in(const CopyRequest& request, const Stopping& stop);

}  // namespace spotter::command
