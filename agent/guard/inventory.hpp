// A trainer's checkpoints on a storage, for a person: its generations, and what was put away. Only
// reads, also while a guard is at work.
#pragma once

#include <cstddef>
#include <map>

#include "agent/base/result.hpp"
#include "agent/guard/keeper.hpp"

namespace spotter::guard {

struct Contents {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  std::size_t copies = 0;  // kept as files of their own: clones, where the file system has them
  std::size_t names = 0;   // kept by a second name
};

struct Inventory {
  Where where;    // as the record has it
  Record record;  // its `away`: what is there, and what no record names, the newest last
  std::map<std::uint64_t, Contents> contents;  // by generation
};

// Kinds of failures: "no-record" (nobody watched there), "record-damaged", wire::newer_format; else
// it cannot be read.
inline constexpr const char* no_record = "no-record";
inline constexpr const char* record_damaged = "record-damaged";

// The inventory of this storage. `as_trainer` is that of Where.
Result<Inventory> inventory_of(const std::filesystem::path& home, bool as_trainer);

// The text without control characters: a name may have any bytes, and none of them begins another
// field of a message, or is obeyed by a terminal.
std::string one_line(std::string text);

// "2 things are put away, 1.3 GB, the newest: ... (`spotter checkpoints ...` lists them)", as one
// line; "": nothing is.
std::string away_text(const std::vector<Away>& away, const std::filesystem::path& home);

}  // namespace spotter::guard
