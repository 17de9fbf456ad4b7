// status.json in SPOTTER_RUN: the agent writes it, `spotter status` shows it. No I/O.
//
// Times are of the boot clock, in ms ("..._boottime_ms"): valid on that machine, in that boot.
#pragma once

#include <optional>

#include "agent/base/names.hpp"

namespace spotter::wire {

inline constexpr int status_version = 1;

// The status as lines of at most `columns` characters, without what the file lacks and without
// control characters. None: it is no status of our version.
std::optional<std::string> status_text(std::string_view json, Time now, std::size_t columns = 80);

// "3 h 5 min of instances, $1.20, 2 interruptions"; empty: it says nothing of that.
std::string spent_words(std::string_view json);

// Why it is no status, for a person: cut off, or of another version. Empty: it is one.
std::string status_trouble(std::string_view json);

// The run directory with the status of the experiment of a sweep's worker; empty: none.
std::string status_below(std::string_view json);

// "waiting for GPUs" of "awaiting-gpus": a stage in words for a person; itself, where it is
// unknown.
std::string_view stage_words(std::string_view stage);
// The text without control characters, which a terminal would interpret.
std::string printable(std::string text);
// "[#####.....]", `columns` characters in all.
std::string progress_bar(double part, std::size_t columns);
// "47 s", "12 min", "3 h 5 min", "2 d 4 h"
std::string duration_text(double seconds);

}  // namespace spotter::wire
