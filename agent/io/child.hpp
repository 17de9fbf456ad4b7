// Turns a process of ours into another one: the one place that forks and executes, but for
// process.hpp, which starts programs for a coroutine that awaits their end and output.
//
// A caller says in `body` what its child does between the two: who it is, which files are its stdin
// and stdout, its session. If this process has threads, only system calls are safe there (fork(2)):
// no memory, no locks.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spotter::io {

// The child calls `body` and ends with the status that this returns. To the caller: the child's
// number, or -1 and errno.
pid_t fork_child(const std::function<int()>& body);

// In a child: the kernel sends `signal` when `parent` has ended (its thread that forked, to be
// exact). A change of user clears that. False: it has ended already.
bool die_with(pid_t parent, int signal);

// The arguments of execve(2), laid out before a fork.
class Program {
 public:
  // `arguments`: the first is the program's path, if `path` is not given. `environment`, as
  // NAME=value: of this process, if it is not given.
  explicit Program(std::vector<std::string> arguments,
                   std::optional<std::vector<std::string>> environment = {}, std::string path = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Returns only where it fails, with errno.
  void execute() const;
  void execute_from_path() const;  // as a shell finds it, in the PATH of this process

 private:
  bool own_environment_;
  std::vector<std::string> arguments_;
  std::vector<std::string> environment_;
  std::string path_;
  std::vector<char*> argument_pointers_;
  std::vector<char*> environment_pointers_;
};

}  // namespace spotter::io
