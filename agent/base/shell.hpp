// Words for a POSIX shell.
#pragma once

#include <string>
#include <string_view>

namespace spotter::wire {

// In single quotes, so that the shell takes every character as it is.
std::string shell_quoted(std::string_view word);

}  // namespace spotter::wire
