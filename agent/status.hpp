// What `spotter status` shows: the agent writes it to SPOTTER_RUN/status.json as things change.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/decide/state.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

class Status {
 public:
  explicit Status(std::string path, std::string job)
      : path_(std::move(path)), job_(std::move(job)) {}

  void observe(const wire::TrainerMessage& message);
  // What of the storage hangs or fails, for a person; empty: nothing.
  void storage_says(std::string words) { storage_says_ = std::move(words); }
  // Writes the file, at most five times a second unless the stage has changed.
  void update(const decide::State& state, Time now, bool stage_changed);

 private:
  std::string path_;
  std::string job_;
  wire::Progress progress_;
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

// status.json for a person; what it lacks is left out. Nothing: it is no status of our version.
std::optional<std::string> status_text(std::string_view json, Time now);

// For `spotter status`: the file as text for a person; of a worker, its experiment's below it.
// Failure: no agent has run here.
int print_status(const std::string& run_directory, bool json);

}  // namespace spotter
