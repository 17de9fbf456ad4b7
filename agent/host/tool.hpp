// Runs a program and waits for it: mkfs, fsck, git. In our own process group, so that who kills the
// group of `spotter host` kills it, too; and it dies with us.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/failure.hpp"
#include "agent/host/user.hpp"

namespace spotter::act::host {

struct ToolRequest {
  std::vector<std::string> argv;  // argv[0] is looked for in PATH and the sbin directories
  std::map<std::string, std::string> environment;  // the whole of it, but for PATH
  std::optional<User> user;                        // with its groups; none: as we are
  bool own_session = false;  // what it leaves behind (a file system's daemon) outlives our group
  int inherited_fd = -1;     // one that the program may use, by its number
};

struct ToolResult {
  int status = 0;      // exit status, or 128 + signal
  std::string output;  // the first MiB of stdout
  std::string errors;  // the first MiB of stderr
};

// Kind: "tool-missing" when there is no such program, with `package` to install; "host-error".
Result<ToolResult> run_tool(const ToolRequest& request, const std::string& package);

// The last lines of what a program said, for an error message.
std::string last_words(const ToolResult& result);

}  // namespace spotter::act::host
