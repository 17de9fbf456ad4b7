// What happened to a job, moment after moment, as `history.jsonl` has it beside the checkpoints and
// the segments have it in S3: one JSON object a line. No I/O.
//
//   {"time":1700000000.25,"what":"phase","instance":"i-1","phase":"training","says":"..."}
//
// Each has `time` (seconds since 1970), `what` and `instance` (the machine's name, where it is no
// instance). By kind, all optional unless a reader could do nothing without:
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
//   account           seconds, dollars, losses, releases, repeated: the whole job's, so far
//   problem           event (its stable name), level (warning, error), words
//   left              why (asked, released, finished, gave-up): the agent left the machine
//
// A later version of a kind says `version`; without it a line is of version 1.
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

struct Moment {
  double time = 0;  // seconds since 1970
  std::string what;
  std::string instance;
  nlohmann::json fields = nlohmann::json::object();  // the rest; null: not known

  // Of a field; nothing where it is absent or of another type. Numbers are finite.
  std::string text(const char* name) const;
  std::optional<double> number(const char* name) const;
  bool operator==(const Moment&) const = default;
};

// One line with its end. Bytes that are no UTF-8 are replaced, what is null is left out.
std::string to_line(const Moment& moment);

// In the order of the lines. Lines that are half-written, foreign, of another kind or without a
// time are left out, and counted; so are those of a later version, which `newer` says.
struct ReadHistory {
  std::vector<Moment> moments;
  std::size_t foreign = 0;
  std::string newer;  // a sentence
};
ReadHistory parse_history(std::string_view lines);

}  // namespace spotter::wire
