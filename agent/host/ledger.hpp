// What the job has cost and how often it failed: kept on the volume, since no instance keeps state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "agent/base/version.hpp"
#include "agent/host/failure.hpp"

namespace spotter::act::host {

struct Ledger {
  std::uint64_t attempts_without_progress = 0;
  std::uint64_t newest_step = 0;
  double seconds = 0;
  double dollars = 0;
  std::uint64_t starts = 0;
  std::uint64_t failures = 0;  // not 0: given up, there will be no result
  bool done = false;
  std::uint64_t losses = 0;
  std::uint64_t releases = 0;
  double stall = 0;  // seconds
  bool running = false;
  bool speaks = false;
  std::uint64_t trainers = 0;  // that were started; write_ledger() counts them
  std::uint64_t reached = 0;   // the step that was told of last
  std::uint64_t repeated = 0;  // steps
};

struct LedgerRead {
  Ledger ledger;
  std::string warning;  // not empty: the file was damaged, and where it was moved
};

// The file's bytes. Unknown keys are those of a newer Spotter that changed nothing of ours; a known
// key of the wrong type is damage. `newer`: its `version` (absent: 1) is a later one.
wire::Decoded<Ledger> parse_ledger(std::string_view json);
std::string to_json(const Ledger& ledger);

// `<mount>/.spotter/ledger.json`. Missing reads as zeros; a damaged one is moved aside to
// `ledger.damaged-<seconds since 1970>` and reads as zeros with a warning. Kinds: those of
// fail_errno, "newer-format".
Outcome<LedgerRead> read_ledger(const std::filesystem::path& mount_point);

// Atomic and durable. `trainers` is what the file says, and one more when the ledger says that one
// was started since it was written. What is there and cannot be read is not overwritten. Kinds:
// those of read_ledger, "not-mounted" (there is no .spotter directory).
Outcome<void> write_ledger(const std::filesystem::path& mount_point, Ledger ledger);

}  // namespace spotter::act::host
