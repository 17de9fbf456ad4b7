// Writes what the trainer reports of the metric of `checkpoints.keep_best` to the run directory,
// where the guard reads it (supervise/values.hpp).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "agent/io/asio.hpp"
#include "agent/job/job.hpp"
#include "agent/supervise/values.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

class BestValues {
 public:
  // Without `checkpoints.keep_best` it does nothing. Goes on with what an earlier agent wrote.
  BestValues(asio::io_context& context, const config::Job& job, std::string run_directory);

  void on_message(const wire::TrainerMessage& message, std::chrono::system_clock::time_point now);

 private:
  void write();

  std::optional<std::string> metric_;
  std::string as_in_log_;  // what its column is called with us
  std::string path_;
  supervise::ReportedValues values_;
  asio::steady_timer next_;  // runs: what came since the last write is written when it expires
  bool waits_ = false;
  bool unwritten_ = false;
  std::string last_trouble_;
};

}  // namespace spotter
