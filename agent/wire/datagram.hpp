// The trainer's messages to the agent: systemd's notification datagrams (sd_notify(3)), with the
// X_SPOTTER_ keys of libspotter. No I/O.
#pragma once

#include "agent/base/json.hpp"
#include "agent/base/names.hpp"

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

// Has the file's name, or its folder's, this number, by itself? If not, the guard counted writes.
bool names_step(std::string_view path, std::int64_t step);

// The work of a channel's data plane since it began (`spotter pipe`).
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
  bool of_guard = false;                // sent by `spotter guard`, not by the trainer
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

// The report of `spotter gang` to the agent on this machine's gang (gang/account.cpp): a line of a
// datagram, beside which the trainer's own may stand. No I/O.

inline constexpr std::size_t most_gang_members = 24;  // by name: all have to fit into a datagram
inline constexpr std::size_t longest_gang_name = 64;
// It is repeated each 10 s: an older one says nothing of now.
inline constexpr Duration longest_gang_silence{30'000};

struct GangReport {
  static constexpr std::string_view keys =
      "members! by_name machines round! leader waits_for rounds why who took_seconds "
      "trained_seconds between_seconds copy_step copy_machines hung?";
  struct Of {
    static constexpr std::string_view keys = "name! does";
    std::string name;
    // It is in the round; waits for the next one; is waited for by those; leaves, or is given back;
    // is ready beside a round that it is not in: trains, waits, awaited, leaves, spare.
    std::string does;
    friend bool operator==(const Of&, const Of&) = default;
  };
  std::uint64_t members = 0;     // that live
  std::vector<Of> by_name = {};  // those of the round first; of a report `most_gang_members`
  std::uint64_t machines = 0;    // that train together now
  std::uint64_t round = 0;       // the last one; 0: none has begun
  std::string leader = {};       // of the round: a machine's name
  std::string waits_for = {};    // empty: this machine waits for nobody
  std::uint64_t rounds = 0;      // that this machine was in
  // The last of them, and why there was one: first; left: a machine with a notice; lost: one
  // without; joined: another; apart: the machines did not reach one another; torn: or lost one
  // another, once they trained; failed: nobody came or went.
  std::string why = {};
  std::string who = {};  // the machines that are the reason
  // Seconds from the moment at which this machine knew that the one before would end, or asked for
  // its first, until it had begun.
  double took = 0;
  double trained = 0;  // seconds in rounds, of this machine
  double between = 0;  // ... and between them, since it asked for the first
  // The newest copy of the state in memory, and how many machines had it when it was made.
  std::uint64_t copy_step = 0;
  std::uint64_t copy_machines = 0;  // 0: there is none
  std::string hung = {};  // what this machine's ranks did when none of them did a step for long
  friend bool operator==(const GangReport&, const GangReport&) = default;
};

// Fits into one datagram: the last members are left out if need be.
std::string to_line(GangReport report);

// Takes a datagram that parse_datagram() takes. None without the members and the round, or with a
// value of another type. A bad word counts as empty; texts are cut.
std::optional<GangReport> parse_gang_report(std::string_view datagram);

// The object under "gang" in status.json.
Json to_json(const GangReport& report);
// Words on that object for a person: "round 7: 3 of 4 machines train, led by i-1"; empty: there is
// none.
std::string gang_words(const Json& gang);
// "step 120 on 3 machines"; empty: there is no copy in memory.
std::string gang_copy(const Json& gang);
// "i-4 was lost"; empty: there was no round.
std::string gang_reason(const Json& gang);

}  // namespace spotter::wire
