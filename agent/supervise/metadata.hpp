// Checks that the instance metadata service refuses the trainer's user. Tries it before each start,
// as that user and in the trainer's own control group: a routing rule may be missing
// (host/metadata.hpp), and systemd only warns where it cannot apply IPAddressDeny=.
//
// A routing rule that prohibits an IPv4 address does not apply to a socket bound to a device, which
// any user may make since Linux 5.7: the kernel assumes the address on that device's link
// (net/ipv4/route.c, ip_route_output_key_hash_rcu). Where the control group's filter does not apply
// either, the trainer is forbidden to bind sockets to devices.
#pragma once

#include "agent/supervise/launch.hpp"

namespace spotter::supervise {

enum class BoundSockets { Allowed, Forbidden };

// Returns how a trainer of that account is kept from the service. Fails, with what to do, where the
// service would answer. Takes 1 s at most, 2 s where it has to forbid; silence is a refusal.
Result<BoundSockets> keep_from_metadata(const Account& account);

// Forbids this process and all that it starts to bind a socket to a device (EPERM, as before Linux
// 5.7) and to use io_uring (ENOSYS), which could do the same. Without CAP_SYS_ADMIN it also
// disables setuid programs. For a child after fork. False: see errno.
bool forbid_bound_sockets();

}  // namespace spotter::supervise
