// A Spec resolved against this machine, so that every error in it is found before a process is
// forked.
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
  bool refuse_metadata = false;  // keep this account, which is not ours, from the metadata service
};

// Fails when there is no such user, working directory, shell or Python environment, and for another
// user while we are not root.
Result<Launch> prepare(const Spec& spec);

}  // namespace spotter::supervise
