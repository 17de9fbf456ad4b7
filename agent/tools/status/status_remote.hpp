// `spotter status --job NAME`: a job seen from elsewhere, whether or not an instance of it is up.
#pragma once

#include <string>

namespace spotter::command {

struct RemoteStatus {
  std::string job;      // its name, or its description
  std::string publish;  // s3://bucket/prefix, where the description does not say it
  bool json = false;
  std::size_t columns = 80;
};

// Prints it; what could not be had is said on stderr. The exit status: 0 all was there, 1 not all,
// 2 wrong input.
int show_remote(const RemoteStatus& options);

}  // namespace spotter::command
