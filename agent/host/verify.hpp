// Which checkpoint would the trainer resume from?
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/failure.hpp"

namespace spotter::act::host {

struct Verified {
  std::optional<std::uint64_t>
      newest;  // none: no checkpoint of ours that verifies; start from scratch
  std::filesystem::path path;
  std::vector<std::string> torn;  // where they are now, with the reason
  std::vector<std::string> said;  // what else a person should read
};

struct VerifyRequest {
  std::filesystem::path mount;
  std::string directory;  // of the checkpoints, relative to it
  bool read_only = false;
  std::string user;  // the trainer's; empty: as who we are
};

// Of a trainer that knows nothing of us (guard/keeper.hpp), with patterns of its files' names. What
// is not whole is moved aside and the last finished content put back, unless it is read-only. Here
// `newest` counts finished files, and is none without a record of them. Kind: "verify-failed".
Outcome<Verified> verify_files(const VerifyRequest& request, const std::string& files);

// Reads every byte of the newest checkpoint, and of older ones as long as they are torn. Torn ones
// are moved aside to `torn-...`, unless it is read-only. A missing directory is one without
// checkpoints. With the rights of the trainer's user, since the directory is the trainer's; of a
// copy, which another image may have written, with those of the directory's owner. Kinds:
// "verify-failed" (nothing is known: it cannot be read, or a newer Spotter wrote it), those of
// find_user().
Outcome<Verified> verify_checkpoints(const VerifyRequest& request);

}  // namespace spotter::act::host
