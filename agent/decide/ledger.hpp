// The account that travels with the volume: what the job has spent, and whether it gets anywhere.
#pragma once

#include <cstdint>
#include <optional>

namespace spotter::decide {

struct Ledger {
  std::uint32_t attempts_without_progress = 0;  // failures seen since the last durable checkpoint
  std::uint32_t starts_without_progress = 0;    // starts since then, however they ended
  std::int64_t newest_step = -1;                // of a durable checkpoint; -1: none yet
  double seconds = 0;                           // instance time since the job began
  double dollars = 0;                           // at the spot price seen at each start; 0: unknown
  // What the pace of checkpoints is chosen from (pace.hpp).
  std::uint32_t losses = 0;    // ends of a trainer that lost its steps since the newest checkpoint
  std::uint32_t releases = 0;  // interruptions announced in time: the last checkpoint was written
  bool running = false;        // a trainer was started, and its end has not been seen yet
  double stall = 0;            // seconds that a checkpoint holds the training up; 0: not known
  bool speaks = false;         // the trainer tells of its steps: long silence means that it hangs
  bool done = false;           // the result is durable
  std::int64_t reached = -1;   // the step that the trainer told of last, on whichever machine
  std::uint64_t repeated = 0;  // steps that were lost, and trained again
  friend bool operator==(const Ledger&, const Ledger&) = default;
};

}  // namespace spotter::decide
