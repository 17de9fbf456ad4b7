// "120s", "2m", "500ms", "1h", "1.5s" as a person writes them. A bare number is refused: it has no
// unit.
#pragma once

#include <string>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"

namespace spotter::emulator {

Result<Duration> parse_duration(const std::string& text);

}  // namespace spotter::emulator
