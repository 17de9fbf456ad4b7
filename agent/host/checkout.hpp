// The trainer's code: one pinned commit, fetched as the trainer's user, with nothing of the
// repository run.
#pragma once

#include "agent/host/git.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

struct CheckedOut {
  static constexpr std::string_view keys = "fetched missing";
  bool fetched = false;  // false: the commit was there already
  // A sentence for a person: pointers of Git LFS that stand in the place of files, submodules that
  // did not come, and why. Empty: nothing is missing.
  std::string missing;
};

// Afterwards `directory` is a work tree with `revision` as its HEAD, tracked files as committed;
// untracked ones (caches) stay. Submodules are work trees below it, files of Git LFS come by
// git-lfs where that is installed. No hooks, no configuration but ours and .lfsconfig is read: the
// objects and the index of `.git`, which the trainer can write, are used only by processes of the
// trainer's user that have no token. A fetch that needs a token goes into a folder of a user that
// nobody else is, and is read from there by path. Without root's rights that is the same user,
// whose other processes could read the token.
Result<CheckedOut> checkout(const verbs::Checkout& request);

}  // namespace spotter::act::host
