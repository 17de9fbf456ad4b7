// Starting the trainer's process. Internal to supervise.
#pragma once

#include <sys/types.h>

#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

// The log, opened for appending and reading; a new one belongs to the user, with
// this mode. A symbolic link or a
// hard link is refused: root would write wherever a user made it point.
Result<Descriptor> open_log(const std::string& path, const Account& owner, mode_t mode);

// Becomes the user, where this process is root: its groups, and all three ids. False: errno. For a
// child after fork.
bool take_identity(const Account& account);

// Forks and execs. Returns the pid once exec has succeeded, or which step before it failed; then
// the child is gone. The trainer dies when this process does. Where the launch says so, it is kept
// from the metadata service (metadata.hpp), or not started. It is in the control group from its
// first instruction; an empty one: in ours.
Result<pid_t> spawn_trainer(const Launch& launch, const Descriptor& log,
                            const std::string& control_group);

}  // namespace spotter::supervise
