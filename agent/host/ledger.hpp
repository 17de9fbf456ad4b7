// What the job has cost and how often it failed: kept on the volume, since no instance keeps state.
#pragma once

#include <filesystem>
#include <string>

#include "agent/host/failure.hpp"
#include "agent/wire/ledger.hpp"

namespace spotter::act::host {

inline constexpr std::size_t ledger_limit = 64U << 10;  // bytes of the file

struct LedgerRead {
  wire::LedgerFile file;
  std::string warning;  // not empty: the file was damaged, and where it was moved
};

// `<mount>/.spotter/ledger.json`. Missing reads as zeros; a damaged one is moved aside to
// `ledger.damaged-<seconds since 1970>` and reads as zeros with a warning. Kinds: those of
// fail_errno, "newer-format".
Result<LedgerRead> read_ledger(const std::filesystem::path& mount_point);

// Atomic and durable. `trainers` is what the file says, and one more when the ledger says that one
// was started since it was written. What is there and cannot be read is not overwritten. Kinds:
// those of read_ledger, "not-mounted" (there is no .spotter directory).
Result<void> write_ledger(const std::filesystem::path& mount_point, wire::LedgerFile file);

}  // namespace spotter::act::host
