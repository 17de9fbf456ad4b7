// Where the program is, and where it works, on this machine.
#pragma once

#include <string>

#include "agent/aws/settings/environment.hpp"

namespace spotter::command {

// An absolute path.
std::string own_program();

// Where there is no instance to name.
std::string host_name();

// Of the service: $SPOTTER_RUN, or /run/spotter.
std::string run_directory_of(const act::Environment& environment);

}  // namespace spotter::command
