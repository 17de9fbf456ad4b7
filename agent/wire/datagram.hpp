// The trainer's messages to the agent: systemd's notification datagrams (sd_notify(3)), with the
// X_SPOTTER_ keys of libspotter. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/metrics.hpp"
#include "agent/base/result.hpp"

namespace spotter::wire {

inline constexpr std::size_t longest_datagram = 4096;    // a longer one is refused whole
inline constexpr std::size_t longest_status_text = 256;  // STATUS= is cut to this

struct Progress {
  std::uint64_t step = 0;
  std::optional<std::uint64_t> steps_total;
  std::optional<std::uint64_t> epoch;
  std::optional<std::uint64_t> epochs_total;
  std::optional<double> loss;
  std::optional<double> accuracy;
  MetricValues metrics = {};  // the rest, by name: those of an evaluation, mostly
  friend bool operator==(const Progress&, const Progress&) = default;
};

struct DurableCheckpoint {
  std::string path;  // absolute
  std::uint64_t step = 0;
  std::optional<double> seconds = {};       // for which training paused: 0 up to a day
  std::optional<std::uint64_t> bytes = {};  // of the file
  friend bool operator==(const DurableCheckpoint&, const DurableCheckpoint&) = default;
};

// What a channel's data plane has done since it began (`spotter pipe`).
struct ChannelFlow {
  std::string channel;
  std::uint64_t bytes = 0;  // written to its FIFOs
  double stalled = 0;       // seconds that its reader waited for bytes
  friend bool operator==(const ChannelFlow&, const ChannelFlow&) = default;
};

struct TrainerMessage {
  bool ready = false;
  bool watchdog = false;
  bool finished = false;  // the result is durable
  std::optional<std::string> status;
  std::optional<Progress> progress;
  std::optional<std::uint64_t> resumed_step;
  std::optional<DurableCheckpoint> checkpoint;
  bool of_guard = false;                // sent by `spotter guard` or its parent, not by the trainer
  bool of_log = false;                  // read in the trainer's own log (`spotter follow-log`)
  std::optional<std::string> note;      // their line for the journal: something is wrong
  std::optional<std::string> best;      // the guard's: a better checkpoint is kept
  std::optional<std::string> put_away;  // the guard's: what lies there; "": nothing
  std::optional<ChannelFlow> flow;
  std::optional<double> window_trained;  // spent training after a notice, in seconds
  friend bool operator==(const TrainerMessage&, const TrainerMessage&) = default;
};

// Skips unknown keys, lines without '=' and values that do not parse: a trainer's mistake must not
// cost the rest of its datagram. A checkpoint without an absolute path or without a step is
// skipped, and so are metrics beyond `most_metrics`. Fails only for a datagram that is too long or
// contains a NUL.
Result<TrainerMessage> parse_datagram(std::string_view bytes);

}  // namespace spotter::wire
