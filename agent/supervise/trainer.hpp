// Checks that the instance metadata service refuses the trainer's user. Tries it before each start,
// as that user and in the trainer's own control group: a routing rule may be missing
// (host/metadata.hpp), and systemd only warns where it cannot apply IPAddressDeny=.
//
// A routing rule that prohibits an IPv4 address does not apply to a socket bound to a device, which
// any user may make since Linux 5.7: the kernel assumes the address on that device's link
// (net/ipv4/route.c, ip_route_output_key_hash_rcu). If the control group's filter does not apply
// either, the trainer is forbidden to bind sockets to devices.
#pragma once

#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

enum class BoundSockets { Allowed, Forbidden };

// Returns how a trainer of that account is kept from the service. Fails, with what to do, where the
// service would answer. Takes 1 s at most, 2 s where it has to forbid; silence is a refusal.
Result<BoundSockets> keep_from_metadata(const Account& account);

// Forbids this process and all that it starts to bind a socket to a device (EPERM, as before Linux
// 5.7) and to use io_uring (ENOSYS), which could do the same. Without CAP_SYS_ADMIN it also
// disables setuid programs. To be called in a child after fork. False: see errno.
bool forbid_bound_sockets();

// Starting the trainer's process. Internal to supervise.

// The log's place: in the run directory, where only we can change the path, or where the user can.
enum class LogPlace { RunDirectory, UsersFolder };

// Opens the log for appending and reading. In the run directory it becomes the user's, and others
// may not read it. In a folder of the user's it is opened with the user's rights alone, so that
// root opens nothing that the user could not, wherever a link in the path points. Refuses a log
// that is a symbolic link, a hard link or no regular file.
Result<Descriptor> open_log(const std::string& path, const Account& owner, LogPlace place);

// If this process is root, becomes the user: groups, and all three ids. False: see errno. To be
// called in a child after fork.
bool take_identity(const Account& account);

// From now on this process and its children leave no core file: memory has the trainer's secrets,
// and a handler of core files may keep them where others read. The hard limit stays: a trainer that
// wants core files raises its own.
void leave_no_core();

// A small plain file of the user's, read with its rights alone; empty: there is none.
std::string read_as(const Account& account, const std::string& path);

struct Streams {
  int input = -1, output = -1, errors = -1;
};
// Forks and execs. Returns the pid once exec has succeeded; fails with the step that failed, and no
// child is left. The process dies when this one does. From its first instruction it is in
// `control_group`; empty: in this process's.
Result<pid_t> spawn_as_trainer(const Launch& launch, const Streams& streams, BoundSockets bound,
                               const std::string& control_group);

// The trainer itself, whose output is the log. If the launch says so, it is kept from the metadata
// service, or not started.
Result<pid_t> spawn_trainer(const Launch& launch, const Descriptor& log,
                            const std::string& control_group);

}  // namespace spotter::supervise
