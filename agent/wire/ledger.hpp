// `.spotter/ledger.json` in a job's home: what the core counts, and further counts. Instances keep
// no state of their own, so the next one has only this.
#pragma once

#include "agent/base/version.hpp"
#include "agent/decide/ledger.hpp"

namespace spotter::wire {

struct LedgerFile {
  decide::Ledger ledger;
  std::uint64_t failures = 0;  // not 0: the job is given up and will have no result
  std::uint64_t trainers = 0;  // trainers that were started; host::write_ledger() counts them
  std::string command;         // of `spotter run`, as typed; empty: job.yaml says what the job is
  bool operator==(const LedgerFile&) const = default;
};

// The file's content. Unknown keys come from a newer Spotter and do not change what ours mean; a
// known key of the wrong type is damage. An error of the kind `newer_format`: its `version`
// (absent: 1) is a later one. A count too large for its field becomes the field's largest value.
Result<LedgerFile> parse_ledger(std::string_view json);
std::string to_json(const LedgerFile& file);
// The same as a part of another record (base/record.hpp).
std::string read_own(const nlohmann::json& json, LedgerFile& file);
nlohmann::json shown_own(const LedgerFile& file);

}  // namespace spotter::wire
