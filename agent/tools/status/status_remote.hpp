// `spotter status --job NAME`: a job seen from any machine, whether or not an instance runs.
#pragma once

#include <string>

namespace spotter::command {

struct RemoteStatus {
  std::string job;      // its name, or its file
  std::string publish;  // s3://bucket/prefix, if the job's file does not name it
  bool json = false;
  std::size_t columns = 80;
};

// Prints it, and to stderr what could not be read. Returns the exit status: 0 all was read, 1 not
// all, 2 wrong input.
int show_remote(const RemoteStatus& options);

}  // namespace spotter::command
