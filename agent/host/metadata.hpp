// Keeps a user of this machine from the instance metadata service. By rules of routing and not by a
// packet filter: connect() fails at once, whoever loads a firewall again does not lose them, and
// `ip` is on every image. Source: ip-rule(8), uidrange. They do not hold for a socket that is bound
// to a device: where nothing else does, agent/supervise/trainer.hpp finds that out and mends it.
#pragma once

#include "agent/host/verb.hpp"

namespace spotter::act::host {

// In the place of whom it was kept from before; there is no moment in which that user is answered,
// whatever other process does the same.
Result<void> refuse_metadata_to(uid_t user);
// The same for sockets that are bound to a device, by a packet filter, which whoever loads a
// firewall again may lose: inside of the trainer's unit and outside. There is no moment without,
// either.
Result<void> refuse_bound_sockets_to(uid_t user);
// Everybody may ask again.
void release_metadata();

}  // namespace spotter::act::host
