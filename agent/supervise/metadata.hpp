// Does the instance metadata service really refuse the trainer's user? Asked of the kernel before
// each start, as that user and in the trainer's own control group: a rule of routing may be missing
// (host/metadata.hpp), and systemd only warns where it cannot carry out IPAddressDeny=.
//
// For a socket that is bound to a device, which any user may do since Linux 5.7, a rule that
// prohibits an IPv4 address does not hold: the kernel takes the address to be on that device's link
// (net/ipv4/route.c, ip_route_output_key_hash_rcu). Where the control group's filter does not hold
// either, the trainer is forbidden to bind sockets to devices.
#pragma once

#include "agent/supervise/launch.hpp"

namespace spotter::supervise {

enum class BoundSockets { Allowed, Forbidden };

// How a trainer of that account is kept from the service. Fails, with what to do, where it would be
// answered. Takes a second at most, two where sockets have to be forbidden: no answer is a refusal.
Result<BoundSockets> keep_from_metadata(const Account& account);

// This process and all that it starts can bind no socket to a device: EPERM, as before Linux 5.7.
// And make no io_uring, which could do that, too: ENOSYS. Without CAP_SYS_ADMIN also no setuid
// program is one any more. For a child after fork. False: errno.
bool forbid_bound_sockets();

}  // namespace spotter::supervise
