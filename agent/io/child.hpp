// Turns a process of ours into another one: the one place that forks and executes, but for
// process.hpp, which starts programs for a coroutine that awaits their end and output, and
// aws/s3/keys.cpp, which runs a credential_process.
//
// A caller says in `body` what its child does between the two: who it is, which files are its stdin
// and stdout, its session. If this process has threads, only system calls are safe there (fork(2)):
// no memory, no locks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::io {

// The child calls `body` and ends with the status that this returns. To the caller: the child's
// number, or -1 and errno.
pid_t fork_child(const std::function<int()>& body);

// In a child: the kernel sends `signal` when `parent` has ended (its thread that forked, to be
// exact). A change of user clears that. False: it has ended already.
bool die_with(pid_t parent, int signal);

// The arguments of execve(2), laid out before a fork.
class Program : Pinned {
 public:
  // `arguments`: the first is the program's path, if `path` is not given. `environment`, as
  // NAME=value: of this process, if it is not given.
  explicit Program(std::vector<std::string> arguments,
                   std::optional<std::vector<std::string>> environment = {}, std::string path = {});

  // Returns only where it fails, with errno.
  void execute() const;
  void execute_from_path() const;  // as a shell finds it, in the PATH of this process

  char* const* arguments() const { return argument_pointers_.data(); }
  char* const* environment() const;

 private:
  bool own_environment_;
  std::vector<std::string> arguments_;
  std::vector<std::string> environment_;
  std::string path_;
  std::vector<char*> argument_pointers_;
  std::vector<char*> environment_pointers_;
};

// Looks for a program in folders with ':' between them; empty: it is in none. A name with a slash
// is a path already.
std::string find_program(const std::string& name, const std::string& path);

struct User {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
  std::vector<gid_t> groups;
  std::string shell{};
};

struct ToolRequest {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // the whole of it, but for PATH
  std::optional<User> user = {};                   // with its groups; none: as we are
  bool own_session = false;  // what it leaves behind (a file system's daemon) outlives our group
  int inherited_fd = -1;     // one that the program may use, by its number
  std::string path = {};     // its PATH, in which argv[0] is looked for; empty: ours, and sbin
  std::chrono::seconds limit = {};  // 0: none
};

struct ToolResult {
  int status = 0;      // exit status, or 128 + signal
  std::string output;  // the first MiB of stdout
  std::string errors;  // the first MiB of stderr
};

// Runs a program, which dies with us, and waits for its end. Fails with ENOENT where there is no
// such program, with ETIMEDOUT where it was killed because of its limit.
Result<ToolResult, std::error_code> run_tool(const ToolRequest& request);

}  // namespace spotter::io
