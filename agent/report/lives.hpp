// What the machines of one job have told, sorted by machine: a step between the histories and the
// model. Private to report/.
#pragma once

#include <string>
#include <vector>

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

// Clocks, and how exactly a boot's time is known: seconds.
inline constexpr double same_boot = 30;

// One number in a format of the C library.
std::string number_text(const char* format, double value);

// A machine from one boot to its end. An agent that is started again on it lives on.
struct Life {
  Instance shown;
  double heard = 0;  // its last word
  std::optional<Notice> notice;
  std::vector<Resumed> resumed;
  std::vector<Ended> ended;
  std::vector<Checkpoint> checkpoints;
  std::vector<VolumeChange> volumes;
  std::vector<JournalLine> journal;
  std::string says;        // of its phase
  bool clock_set = false;  // back, while it ran: its moments do not follow each other
  std::string left;        // why the agent left; empty: it has not said
  Count reached;           // by its own curve
  Number spent_dollars;    // of the whole job so far

  bool interrupted() const {
    return shown.end == Instance::End::Interrupted || shown.end == Instance::End::Lost;
  }
  // It got what only one may have: whoever had it before is gone.
  bool took_over() const;
  // Was a step being trained then? At its last word, for later times.
  bool trained_at(double time) const;
};

// In the order in which they began, each with its end. A machine that is heard of no more was lost
// when a later one took its work over.
std::vector<Life> lives_of(const Source& source, double now);

// What has become of the job, told by machine after machine.
struct Story {
  std::vector<Interruption> interruptions;
  std::vector<Repeat> repeats;
};
// Of a machine that has its notice and still runs: what is known by now.
Interruption standing_notice(const Life& life);
Story story_of(const std::vector<Life>& lives);

// `all`: of every experiment.
Cost cost_of(const std::vector<Life>& all, const Prices& prices, double now);
// Of one source: how far it got, as its curve and status know it.
struct Track {
  std::vector<Life> lives;
  std::int64_t reached = 0;
};
struct Elapsed {
  double now = 0, seconds = 0;
};
Goodput goodput_of(const std::vector<Track>& tracks, const std::vector<Repeat>& repeats,
                   const Elapsed& elapsed);

// Its boot, where that was what brought the agent.
double begin_of(const Instance& instance);

// Between two clocks that may differ a little, never negative.
inline double between(double from, double to) { return to > from ? to - from : 0; }

}  // namespace spotter::report
