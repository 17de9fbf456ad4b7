// A Spec resolved against this machine: everything that can be wrong is found before anything
// forks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/supervise/spec.hpp"

namespace spotter::supervise {

struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string home;
  std::string shell;
};

struct Launch {
  Account account;
  std::string shell;                     // absolute path
  std::vector<std::string> arguments;    // SHELL -l -c COMMAND
  std::vector<std::string> environment;  // NAME=value
  std::string working_directory;
  bool refuse_metadata = false;  // of the instance, to this account, which is not ours
};

// Fails: no such user, another user while we are not root, no working directory, no shell, no such
// Python environment.
Result<Launch> prepare(const Spec& spec);

}  // namespace spotter::supervise
