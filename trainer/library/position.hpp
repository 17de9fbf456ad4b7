// How far a channel was consumed, recorded in a checkpoint's `meta`, so that a run that restores
// the weights continues with the next record.
//   "spotter_channels": {"train": {"epoch": 3, "bytes": 47760, "records": 60}}
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::channel {

// What was consumed of an epoch: bytes of its stream, framing included, and records.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

inline constexpr const char* kPositions = "spotter_channels";

// REQUIRES: `meta` is an object.
void record(nlohmann::json& meta, const std::string& channel, const Position& position);

// The start of epoch 0 if `meta` lacks the channel. Fails for what record() did not write.
Result<Position> recorded(const nlohmann::json& meta, const std::string& channel);

}  // namespace spotter::channel
