// The histories of one job, sorted by boot of a machine: an intermediate form between histories and
// model. Private to report/.
#pragma once

#include "agent/report/model.hpp"

namespace spotter::report {

struct Notice {
  double time = 0;
  std::string action;
  Number deadline;
};

struct Resumed {
  double time = 0;
  Count step, repeated;
};

struct Ended {
  double time = 0;
  std::string how;  // finished, stopped, failed, lost, killed
  Count step, checkpoint_step;
  Number stall_seconds, trained_seconds, window_trained;
};

// The tolerance of clocks and boot times, in seconds.
inline constexpr double same_boot = 30;

// One boot of a machine, to its end, with all sessions of agents on it.
struct Boot {
  Instance shown;
  double last_seen = 0;  // time of its last entry
  std::optional<Notice> notice;
  std::vector<Resumed> resumed;
  std::vector<Ended> ended;
  std::vector<Checkpoint> checkpoints;
  std::vector<VolumeChange> volumes;
  std::vector<JournalLine> journal;
  std::string says;            // the sentence of its phase
  bool clock_set = false;      // the clock was set back while it ran: its entries are not in order
  std::string left;            // why the agent left; empty: unknown
  Count reached;               // by its own curve
  Number spent_dollars;        // of the whole job so far
  Number s3_writes, s3_reads;  // the same: requests

  bool interrupted() const {
    return shown.end == Instance::End::Interrupted || shown.end == Instance::End::Lost;
  }
  // It got the storage, which only one can have: the previous holder is gone.
  bool took_over() const;
  // Was a step being trained at that time? A time after its last entry counts as that entry's.
  bool trained_at(double time) const;
};

// In the order in which they began, each with its end. A silent machine counts as lost once a later
// one took over its work.
std::vector<Boot> boots_of(const Source& source, double now);

// The job's interruptions and repeats, over all its machines.
struct Story {
  std::vector<Interruption> interruptions;
  std::vector<Repeat> repeats;
};
// The interruption, as far as it is known, of a machine that has a notice and still runs.
Interruption standing_notice(const Boot& boot);
Story story_of(const std::vector<Boot>& boots);

// `all`: of all experiments.
Cost cost_of(const std::vector<Boot>& all, const Prices& prices, double now);
// One source: how far it got, by its curve and status.
struct Track {
  std::vector<Boot> boots;
  std::int64_t reached = 0;
};
struct Elapsed {
  double now = 0, seconds = 0;
};
Goodput goodput_of(const std::vector<Track>& tracks, const std::vector<Repeat>& repeats,
                   const Elapsed& elapsed);

// Its boot, if it booted for this job; else when its agent began.
double begin_of(const Instance& instance);

// The difference of two clocks that may differ a little; never negative.
inline double between(double from, double to) { return to > from ? to - from : 0; }

}  // namespace spotter::report
