// The trainer's code: one pinned commit, fetched as the trainer's user, with nothing of the
// repository run.
#pragma once

#include "agent/host/failure.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

struct CheckedOut {
  bool fetched = false;  // false: the commit was there already
};

// Afterwards `directory` is a work tree whose HEAD is `revision`, tracked files as committed;
// untracked ones (caches) stay. No hooks, no submodules, no configuration but ours is read: of
// `.git`, which the trainer can write, its objects and its index are used, by processes of the
// trainer's user that have no token. What a token is needed for is fetched into a folder of a user
// that nobody else is (private_folder.hpp), and from there by path. Without root's rights that is
// the same user, whose other processes could read the token. Kinds: "code-unreachable",
// "revision-missing", "code-denied", "code-failed", "storage-full", "tool-missing", "user-missing",
// "not-permitted", "bad-request".
Result<CheckedOut> checkout(const verbs::Checkout& request);

}  // namespace spotter::act::host
