// Finds the checkpoint that the trainer would resume from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/verb.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

struct Verified {
  std::optional<std::uint64_t>
      newest;  // none: no checkpoint of ours that verifies; start from scratch
  std::filesystem::path path;
  std::vector<std::string> torn;  // where they are now, with the reason
  std::vector<std::string> said;  // what else a person should read
};

// If the trainer has no libspotter, the guard's record decides (guard/keeper.hpp): the directory
// becomes its newest generation, unless it is read-only. Here `newest` counts finished files, or is
// the number in a folder's name; none without a record of them. Without a guard, and if libspotter
// saves, it is verify_checkpoints(). Kind: "verify-failed".
Result<Verified> verify(const verbs::Verify& request);

// Reads every byte of the newest checkpoint, and of older ones as long as they are torn. Torn ones
// are moved aside to `torn-...`, unless it is read-only. A missing directory is one without
// checkpoints. With the rights of the trainer's user, since the directory is the trainer's; of a
// copy, which another image may have written, with those of the directory's owner. Kinds:
// "verify-failed" (nothing is known: it cannot be read, or a newer Spotter wrote it), those of
// find_user().
Result<Verified> verify_checkpoints(const verbs::Verify& request);

}  // namespace spotter::act::host
