// What the agent tells, beside the job's account, in `.spotter` of the job's home: its own words
// (agent.log) and what happened (history.jsonl). Instances come and go, and their journals with
// them.
#pragma once

#include <filesystem>
#include <string_view>

#include "agent/act/host/failure.hpp"

namespace spotter::act::host {

inline constexpr std::string_view log_name = "agent.log";
inline constexpr std::string_view history_name = "history.jsonl";

// Appends `lines` to the file of that name, durably. A file of some MiB becomes `<name>.1`, in the
// place of the one before. Kinds: those of fail_errno, "not-mounted" (there is no .spotter
// directory).
Outcome<void> keep_lines(const std::filesystem::path& home, std::string_view name,
                         std::string_view lines);

}  // namespace spotter::act::host
