// Starting the trainer's process. Internal to supervise.
#pragma once

#include <sys/types.h>

#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

// Where the log lies: in the run directory, whose path is ours alone, or where the user can change
// the path to it.
enum class LogPlace { RunDirectory, UsersFolder };

// The log, opened for appending and reading. In the run directory it is given to the user, and
// others may not read it. In a folder of the user's it is opened with the user's rights alone:
// whatever a link on the way points to, root opens nothing there that the user could not. A
// symbolic link in the last place, a hard link and what is no regular file are refused.
Result<Descriptor> open_log(const std::string& path, const Account& owner, LogPlace place);

// Becomes the user, where this process is root: its groups, and all three ids. False: errno. For a
// child after fork.
bool take_identity(const Account& account);

// What is written into a pipe until its last writer closes it.
std::string read_to_end(int file);

// Forks and execs. Returns the pid once exec has succeeded, or which step before it failed; then
// the child is gone. The trainer dies when this process does. Where the launch says so, it is kept
// from the metadata service (metadata.hpp), or not started. It is in the control group from its
// first instruction; an empty one: in ours.
Result<pid_t> spawn_trainer(const Launch& launch, const Descriptor& log,
                            const std::string& control_group);

}  // namespace spotter::supervise
