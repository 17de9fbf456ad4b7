// Parses the files that the supervisor leaves in the run directory. No I/O; see supervisor.hpp.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/names.hpp"
#include "agent/base/version.hpp"

namespace spotter::supervise {

// supervisor.json
struct Record {
  int supervisor_pid = 0;
  int trainer_pid = 0;
  std::uint64_t trainer_start_ticks = 0;
  Time started;
  std::string job;
  std::string control_group;  // the trainer's own; empty: it has none
};

// A process that even SIGKILL did not end (stuck in the kernel). Both are of one boot.
struct LeftOver {
  int pid = 0;
  std::uint64_t start_ticks = 0;  // the pid may be another process's by now
  friend bool operator==(const LeftOver&, const LeftOver&) = default;
};
void to_json(nlohmann::json& json, const LeftOver& process);

// ended.json
struct Ended {
  std::optional<int> exit_code;  // exactly one of the two is set
  std::optional<int> signal;
  bool core_dumped = false;
  bool out_of_memory = false;       // the kernel killed a process of its unit for that
  bool checkpoint_doubted = false;  // it failed as it started on it: the one before is there now
  std::string stopped_by;           // by whom, other than our agent; empty: by nobody
  std::string last_words;           // the end of its output: at most 4 KiB and 20 lines
  Time ended;
  Duration ran{};
  int trainer_pid = 0;
  std::string job;
  std::string boot_id;
  std::vector<LeftOver> left_over;
};

// The part of an output's end that becomes last_words: 20 lines at most.
std::string last_lines(std::string text);

// Only Spotter writes these files, so a damaged one is reported, not repaired. A pid of 0 or below
// is damage: kill(2) would signal other processes. `newer`: `version` (absent: 1) is a later one,
// since a package may be rolled back while a trainer runs.
inline constexpr std::uint64_t record_version = 1;
Result<Record> parse_record(std::string_view json);
Result<Ended> parse_ended(std::string_view json);

}  // namespace spotter::supervise
