// The trainer's code: one pinned commit, fetched as the trainer's user, with nothing of the
// repository run.
#pragma once

#include <filesystem>
#include <string>

#include "agent/act/host/failure.hpp"

namespace spotter::act::host {

struct CheckoutRequest {
  std::string repository;  // any git URL or path; no password in it
  std::string revision;    // 40 hex digits
  std::filesystem::path directory;
  std::string user;
  std::string token;  // empty: none. Reaches `git fetch` alone, by its environment
};

struct CheckedOut {
  bool fetched = false;  // false: the commit was there already
};

// Afterwards `directory` is a work tree whose HEAD is `revision`, tracked files as committed;
// untracked ones (caches) stay. No hooks, no submodules, no configuration but ours: `.git/config`
// is rewritten. Kinds: "code-unreachable", "revision-missing", "code-denied", "code-failed",
// "storage-full", "tool-missing", "user-missing", "not-permitted", "bad-request".
Outcome<CheckedOut> checkout(const CheckoutRequest& request);

}  // namespace spotter::act::host
