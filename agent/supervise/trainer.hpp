// Starting the trainer's process. Internal to supervise.
#pragma once

#include <sys/types.h>

#include "agent/supervise/launch.hpp"
#include "agent/supervise/metadata.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

// Where the log is: in the run directory, where only we can change the path, or where the user can.
enum class LogPlace { RunDirectory, UsersFolder };

// Opens the log for appending and reading. In the run directory it becomes the user's, and others
// may not read it. In a folder of the user's it is opened with the user's rights alone, so that
// root opens nothing that the user could not, wherever a link in the path points. Refuses a log
// that is a symbolic link, a hard link or no regular file.
Result<Descriptor> open_log(const std::string& path, const Account& owner, LogPlace place);

// If this process is root, becomes the user: groups, and all three ids. False: see errno. For a
// child after fork.
bool take_identity(const Account& account);

// Returns what is written into a pipe until its last writer closes it.
std::string read_to_end(int file);

struct Streams {
  int input = -1, output = -1, errors = -1;
};
// Forks and execs. Returns the pid once exec has succeeded; fails with the step that failed, and no
// child is left. The process dies when this one does. From its first instruction it is in
// `control_group`; empty: in this process's.
Result<pid_t> spawn_as_trainer(const Launch& launch, const Streams& streams, BoundSockets bound,
                               const std::string& control_group);

// The trainer itself, whose output is the log. Where the launch says so, it is kept from the
// metadata service (metadata.hpp), or not started.
Result<pid_t> spawn_trainer(const Launch& launch, const Descriptor& log,
                            const std::string& control_group);

}  // namespace spotter::supervise
