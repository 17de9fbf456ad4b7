// An instance, or its agent alone, is lost at every point of a set of base stories (story.hpp),
// also twice in one story; each time the job must end well.
#pragma once

#include <string>

namespace spotter::simulate {

struct CrashOptions {
  bool pairs = false;   // two instances lost in one story
  bool agents = false;  // and one of the two, or both, only as agents
  bool fence = false;   // the jobs on a volume have one
  bool bucket = false;  // the jobs on a volume have their home in one instead
  unsigned jobs = 1;    // threads
  std::string json;     // write the figures to this file; empty: nowhere
};

// Prints the points and runs of each story, and of each run that ends badly a scenario that
// replays it. The exit status.
int run_crash_points(const CrashOptions& options);

}  // namespace spotter::simulate
