// How far a channel was consumed, and how that lies in a checkpoint: in the manifest's `meta`, so
// that whoever restores the weights goes on with the very next record.
//   "spotter_channels": {"train": {"epoch": 3, "bytes": 47760, "records": 60}}
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::channel {

// What was consumed of an epoch: its stream's bytes, framing included, and the records in them.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

inline constexpr const char* kPositions = "spotter_channels";

// REQUIRES: `meta` is an object.
void record(nlohmann::json& meta, const std::string& channel, const Position& position);

// The begin where `meta` says nothing of the channel. Fails on what record() has not written.
Result<Position> recorded(const nlohmann::json& meta, const std::string& channel);

}  // namespace spotter::channel
