// What is known of a trainer's finished checkpoint files: `<mount>/.spotter/checkpoints.json`,
// replaced as a whole, its last member the sum of all before it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/version.hpp"

namespace spotter::guard {

// One finished file: durable, with this content, when it was recorded.
struct Entry {
  std::string name;  // relative to the checkpoint directory
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string sum;         // XXH3, 128 bit, 32 hexadecimal digits
  std::uint64_t step = 0;  // the record's, when it was finished
  std::uint64_t run = 0;   // in which it was written last
  std::string kept;        // the copy of this content in .spotter/kept; empty: none
  bool gone = false;       // its owner has removed it; the name is remembered
  // Its file is torn, or moved aside already, and the copy is to take its place: whoever dies in
  // between has removed nothing.
  bool restoring = false;
  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Record {
  // Somebody watches, or was killed while watching: what is not recorded may be torn.
  bool watching = false;
  std::uint64_t run = 0;     // how often a trainer was started under this watch
  std::uint64_t step = 0;    // how often there was progress: what the agent counts
  std::uint64_t number = 0;  // of the last copy or file set aside
  std::vector<Entry> files;  // in the order in which they were finished, the newest last
  friend bool operator==(const Record&, const Record&) = default;

  Entry* find(std::string_view name);
  const Entry* find(std::string_view name) const;
  const Entry* newest() const;  // that is not gone

  // This file was finished now, and is the newest. A name that is new, or that is written again in
  // the same run, is progress; a trainer that begins anew after each crash makes none.
  Entry& finish(Entry entry);
};

std::string encode(const Record& record);
// Fails for anything that encode() cannot have written. `newer`: the sum is right, the format a
// later one; every format keeps `format`, and the sum as its last member.
wire::Decoded<Record> decode(std::string_view bytes);

}  // namespace spotter::guard
