// `spotter logs`: see commands.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/formats/s3.hpp"

namespace spotter::command {

struct LogsOptions {
  std::string job, publish;
  bool follow = false;
  std::size_t last = std::string::npos;  // lines of what is there; all others are shown
  std::optional<std::size_t> experiment;
  double since = 0;  // seconds since 1970: an end before is an earlier run's
};

// The last lines of the output that is published there; none, if it cannot be read.
std::vector<std::string> last_output(const wire::S3Location& place, std::size_t lines);

// Prints the output; with `follow` until the job has ended. Returns the exit status.
int logs(const LogsOptions& options);

}  // namespace spotter::command
