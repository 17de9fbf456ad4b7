// Points of wall-clock time as AWS writes them.
#pragma once

#include <chrono>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

using WallTime = std::chrono::sys_seconds;

// RFC 3339: 2026-11-21T10:15:30Z, ...30.123Z, ...30+01:00. A fraction is dropped.
Result<WallTime> parse_rfc3339(std::string_view text);

// The preferred form of an HTTP Date (RFC 9110, 5.6.7): Sat, 21 Nov 2026 10:15:30 GMT.
Result<WallTime> parse_http_date(std::string_view text);

std::string to_rfc3339(WallTime time);   // 2026-11-21T10:15:30Z
std::string to_amz_date(WallTime time);  // 20261121T101530Z: Signature Version 4

}  // namespace spotter::wire
