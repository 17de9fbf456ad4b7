// What the agent tells, beside the job's ledger, in `.spotter` of the job's home: its own words
// (agent.log) and what happened (history.jsonl). Instances come and go, and their journals with
// them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "agent/host/failure.hpp"
#include "agent/io/beneath.hpp"

namespace spotter::act::host {

inline constexpr std::string_view log_name = "agent.log";
inline constexpr std::string_view history_name = "history.jsonl";

// Appends `lines` to the file of that name, durably. A file of some MiB becomes `<name>.1`, in the
// place of the one before. Kinds: those of fail_errno, "not-mounted" (there is no .spotter
// directory), "newer-format" (a newer Spotter wrote the history's last lines: it stays as it is).
Result<void> keep_lines(const std::filesystem::path& home, std::string_view name,
                        std::string_view lines);

// The last lines of a file that grows: whoever wrote there last says which version it is of. Empty:
// there is none, or it cannot be read.
std::string last_lines(const io::Beneath& folder, const std::string& name);

}  // namespace spotter::act::host
