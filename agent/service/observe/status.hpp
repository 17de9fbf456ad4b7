// What `spotter status` shows: the agent writes it to SPOTTER_RUN/status.json as things change. A
// file, not a socket: it is read without the agent, and still there when that has died.
#pragma once

#include <optional>
#include <string>

#include "agent/decide/state.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

// How fast the trainer goes, of its last two to four minutes.
class StepPace {
 public:
  void observe(std::uint64_t step, Time now);
  std::optional<double> per_second() const;

 private:
  struct Mark {
    std::uint64_t step = 0;
    Time at{};
  };
  std::optional<Mark> older_;
  Mark newer_, last_;
};

class Status {
 public:
  explicit Status(std::string path, std::string job)
      : path_(std::move(path)), job_(std::move(job)) {}

  void observe(const wire::TrainerMessage& message, Time now);
  // What of the storage hangs or fails, for a person; empty: nothing.
  void storage_says(std::string words) { storage_says_ = std::move(words); }
  // Writes the file, at most five times a second unless the stage has changed. `says`: the stage in
  // a sentence.
  void update(const decide::State& state, const std::string& says, Time now, bool stage_changed);

 private:
  std::string path_;
  std::string job_;
  wire::Progress progress_;
  StepPace pace_;
  std::string trainer_says_;
  std::string storage_says_;
  std::optional<double> window_trained_;
  Time written_{};
};

// The same file of a worker: what it says, what is wrong with the claims (empty: nothing), and
// where the agent of its experiment runs.
struct WorkerStatus {
  std::string job, words, trouble, run_directory;
};
void write_worker_status(const std::string& path, const WorkerStatus& worker);

}  // namespace spotter
