// This program's path, this machine's name, and the run directory.
#pragma once

#include <string>

#include "agent/aws/settings/settings.hpp"

namespace spotter::command {

// An absolute path.
std::string own_program();

// Named where there is no instance id.
std::string host_name();

// The service's run directory: $SPOTTER_RUN, or /run/spotter.
std::string run_directory_of(const act::Environment& environment);

}  // namespace spotter::command
