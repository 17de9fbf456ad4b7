// The ledger that travels with the volume: what the job has spent, and whether it gets anywhere.
#pragma once

#include <algorithm>

#include "agent/base/names.hpp"

namespace spotter::decide {

struct Spent {
  double seconds = 0, dollars = 0;
};

struct Ledger {
  // In its file (wire/ledger.hpp).
  static constexpr std::string_view keys =
      "attempts_without_progress starts hangs newest_step seconds dollars losses crashes releases "
      "running stall stalled speaks done reached repeated trained s3_writes s3_reads given_up "
      "stopped_early";
  std::uint32_t attempts_without_progress = 0;  // failures seen since the last durable checkpoint
  std::uint32_t starts_without_progress = 0;    // starts since then, however they ended
  std::uint32_t hangs_without_progress = 0;
  std::int64_t newest_step = -1;  // of a durable checkpoint; -1: none yet
  double seconds = 0;             // instance time since the job began
  double dollars = 0;             // at the spot price seen at each start; 0: unknown
  // The pace of checkpoints is chosen from these (pace.hpp).
  std::uint32_t losses = 0;    // ends of a trainer that lost its steps since the newest checkpoint
  std::uint32_t crashes = 0;   // of them, the trainer's own
  std::uint32_t releases = 0;  // interruptions announced in time: the last checkpoint was written
  bool running = false;        // a trainer was started, and its end has not been seen yet
  double stall = 0;            // seconds that a checkpoint holds the training up; 0: not known
  double stalled = 0;          // seconds of all of them together
  bool speaks = false;         // the trainer reports its steps: one that stops doing so hangs
  bool done = false;           // the result is durable
  std::int64_t reached = -1;   // the step that the trainer reported last, on whichever machine
  std::uint64_t repeated = 0;  // steps that were lost, and trained again
  double trained = 0;          // of `seconds`: while a trainer ran
  // Requests to S3 of a home in a bucket, which cost: those that write, or list, and the others.
  std::uint64_t s3_writes = 0;
  std::uint64_t s3_reads = 0;
  bool given_up = false;  // the last session that wrote this gave the job up
  // Why the sweep's rule ended this experiment before its time (RuledOut); empty: it did not.
  ShortText<200> stopped_early;
  friend bool operator==(const Ledger&, const Ledger&) = default;
};

// Counts how often the machine was taken away while a trainer ran, as everybody hears it: a crash
// is none, nor is a stop that a person asked for.
inline std::uint32_t interruptions(const Ledger& ledger) {
  return ledger.releases + ledger.losses - std::min(ledger.crashes, ledger.losses);
}

}  // namespace spotter::decide
