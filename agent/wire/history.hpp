// A job's history: the content of `history.jsonl` beside the checkpoints, and of its segments in
// S3. One JSON object a line, an entry. No I/O.
//
//   {"time":1700000000.25,"what":"phase","instance":"i-1","phase":"training","says":"..."}
//
// Each has `time` (seconds since 1970), `what` and `instance` (without an instance, the machine's
// name). Fields by kind, all optional unless an entry is useless without:
//
//   began             type, zone, volume, booted (time), experiment (index), price ($ an hour)
//   price             dollars_per_hour
//   phase             phase (below), says (a sentence); only when it changes
//   notice            action (terminate, stop, hibernate, group), deadline (time)
//   notice-withdrawn
//   rebalance
//   resumed           step, repeated (steps that had been trained beyond it, on any machine)
//   checkpoint        step, seconds (that training stood still), bytes; the first of a run, one in
//                     ten minutes, each one after a notice
//   ended             end (finished, stopped, failed, lost, killed), step (reached),
//                     checkpoint_step (the newest durable one), checkpoints (how many), bytes,
//                     stall_seconds, trained_seconds, window_trained (seconds of the notice's)
//   volume            change (snapshot, copy, verified, deleted, promoted, attached, detached),
//                     volume, snapshot, zone
//   account           seconds, dollars, losses, releases, repeated: the whole job's, so far;
//                     s3_writes, s3_reads: its requests, where its home is in a bucket
//   problem           event (its stable name), level (warning, error), words
//   left              why (asked, released, finished, gave-up): the agent left the machine
//
// An entry of a later version of its kind has `version`; without it the version is 1.
//
// Phases: looking, waiting, moving, mounting, preparing, training, stopping, releasing, finishing,
// blocked, released, finished, gave-up.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spotter::wire {

struct HistoryEntry {
  double time = 0;  // seconds since 1970
  std::string what;
  std::string instance;
  nlohmann::json fields = nlohmann::json::object();  // the other fields; null: not known

  // The field's value; none where it is absent or of another type. Numbers are finite.
  std::string text(const char* name) const;
  std::optional<double> number(const char* name) const;
  bool operator==(const HistoryEntry&) const = default;
};

// One line with its newline. Replaces bytes that are not UTF-8, leaves out null fields.
std::string to_line(const HistoryEntry& entry);

// In the order of the lines. Leaves out and counts lines that are cut off, foreign, of another kind
// or without a time, and those of a later version; of the latter `newer` tells a person.
struct ReadHistory {
  std::vector<HistoryEntry> entries;
  std::size_t foreign = 0;
  std::string newer;
};
ReadHistory parse_history(std::string_view lines);

}  // namespace spotter::wire
