#include "agent/base/text.hpp"

namespace spotter::wire {

std::string shell_quoted(std::string_view word) {
  std::string quoted = "'";
  for (const char each : word) {
    if (each == '\'')
      quoted += "'\\''";
    else
      quoted += each;
  }
  return quoted + "'";
}

}  // namespace spotter::wire
