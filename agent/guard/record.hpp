// What is known of a trainer's finished checkpoint files, or folders:
// `<mount>/.spotter/checkpoints.json`, replaced as a whole, its last member the sum of all before
// it. Format 1 knows files alone, and is written while there is no folder in it; format 2 knows
// both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/version.hpp"

namespace spotter::guard {

// A file of a folder that is one checkpoint.
struct Part {
  std::string name;  // relative to the folder
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string sum;
  friend bool operator==(const Part&, const Part&) = default;
};

// One finished file, or folder: durable, with this content, when it was recorded.
struct Entry {
  std::string name;           // relative to the checkpoint directory
  std::uint64_t bytes = 0;    // of a folder: of all its files
  std::int64_t mtime_ns = 0;  // of a folder: of its newest file
  // XXH3, 128 bit, 32 hexadecimal digits; of a folder: of its files' names, lengths and sums.
  std::string sum;
  // The record's, when it was finished; of a folder the number that its name ends with, if any.
  std::uint64_t step = 0;
  std::uint64_t run = 0;  // in which it was written last
  std::string kept;       // the copy of this content in .spotter/kept; empty: none
  bool gone = false;      // its owner has removed it; the name is remembered
  // Its file is torn, or moved aside already, and the copy is to take its place: whoever dies in
  // between has removed nothing.
  bool restoring = false;
  bool folder = false;
  std::string look;         // of a folder: the sum of its files' names, lengths and times of change
  std::vector<Part> parts;  // of the newest two folders
  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Record {
  // Somebody watches, or was killed while watching: what is not recorded may be torn.
  bool watching = false;
  std::uint64_t run = 0;     // how often a trainer was started under this watch
  std::uint64_t step = 0;    // how often there was progress: what the agent counts
  std::uint64_t number = 0;  // of the last copy or file set aside
  std::vector<Entry> files;  // in the order in which they were finished, the newest last
  bool of_folders = false;   // what was watched last, as job.yaml had it: folders, or files
  friend bool operator==(const Record&, const Record&) = default;

  Entry* find(std::string_view name);
  const Entry* find(std::string_view name) const;
  // That is not gone: the file that was finished last, the folder with the highest step.
  const Entry* newest() const;
  // The folder that was finished last in this run, gone or not: what the next one will look like.
  const Entry* last_folder() const;

  // This file was finished now, and is the newest. A name that is new, or that is written again in
  // the same run, is progress; a trainer that starts over after each crash makes none. Where the
  // name has a number, that is the step.
  Entry& finish(Entry entry, std::optional<std::uint64_t> number = std::nullopt);
};

// Of a folder: of its files' names, lengths and sums.
std::string sum_of_parts(const std::vector<Part>& parts);

std::string encode(const Record& record);
// Fails for anything that encode() cannot have written. `newer`: the sum is right, the format a
// later one; every format keeps `format`, and the sum as its last member.
Result<Record> decode(std::string_view bytes);

}  // namespace spotter::guard
