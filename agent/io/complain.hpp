// Messages of a command to the person who ran it, beside what it was asked for.
#pragma once

#include <string>

namespace spotter::io {

// "spotter COMMAND: WHAT" as a line on the standard error. Returns the exit status that it is
// given.
int complain(const char* command, const std::string& what, int status = 1);

}  // namespace spotter::io
