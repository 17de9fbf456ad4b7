// Which checkpoint would the trainer resume from?
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/act/host/failure.hpp"

namespace spotter::act::host {

struct Verified {
  std::optional<std::uint64_t>
      newest;  // none: no checkpoint of ours that verifies; start from scratch
  std::filesystem::path path;
  std::vector<std::string> torn;  // where they are now, with the reason
  std::vector<std::string> said;  // what else a person should read
};

// Of a trainer that knows nothing of us (guard/keeper.hpp): `mount` and `directory` below it, with
// patterns of its files' names. What is not whole is moved aside and the last finished content put
// back, unless `read_only`. Here `newest` counts finished files, and is none without a record of
// them. Kind: "verify-failed".
Outcome<Verified> verify_files(const std::filesystem::path& mount, const std::string& directory,
                               const std::string& files, bool read_only);

// Reads every byte of the newest checkpoint, and of older ones as long as they are torn. Torn ones
// are moved aside to `torn-...`, unless `read_only`. A missing directory is one without
// checkpoints. Kind: "verify-failed" (nothing is known: it cannot be read, or a newer Spotter wrote
// it).
Outcome<Verified> verify_checkpoints(const std::filesystem::path& directory, bool read_only);

}  // namespace spotter::act::host
