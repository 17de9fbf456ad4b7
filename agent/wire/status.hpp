// status.json, which the agent keeps in SPOTTER_RUN, for a person. No I/O.
//
// Times in it are of the boot clock, in ms ("..._boottime_ms"): only on that machine, in that boot.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/base/names.hpp"

namespace spotter::wire {

inline constexpr int status_version = 1;

// Lines of at most `columns` characters; what the status lacks is left out. Whoever wrote it, no
// control character of it comes through. Nothing: it is no status of our version.
std::optional<std::string> status_text(std::string_view json, Time now, std::size_t columns = 80);

// Why it is none, for a person: half-written, or of another version. Empty: it is one.
std::string status_trouble(std::string_view json);

// Where an experiment's own status is, of a worker's; empty: nowhere.
std::string status_below(std::string_view json);

// Without control characters, which a terminal would obey.
std::string printable(std::string text);
// "[#####.....]" of so many characters in all.
std::string progress_bar(double part, std::size_t columns);
// "47 s", "12 min", "3 h 5 min", "2 d 4 h"
std::string duration_text(double seconds);

}  // namespace spotter::wire
