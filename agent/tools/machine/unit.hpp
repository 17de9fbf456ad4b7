// `spotter unit`: asks systemd to run one of our own processes as a service.
#pragma once

#include <string>

namespace spotter::command {

// `trainer`: starts `spotter supervise` with the Spec of stdin as spotter-trainer-NAME.service, and
// returns once the trainer runs: as `spotter supervise` itself, with the same exit status.
// `host`: has a request of stdin done by `spotter host` in a service, hands on what that prints,
// and is not outlived by it. `print`: a unit file of what `trainer` asks for.
int unit(int argc, char** argv);

// The service's side of `host`: does what the file asks for (verb_request.hpp).
int requested_verb(const std::string& file);

}  // namespace spotter::command
