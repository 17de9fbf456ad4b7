// What an ended trainer's exit means for the job.
#pragma once

#include <string>

#include "agent/supervise/client.hpp"

namespace spotter::supervise {

struct Expectation {
  std::string run_directory;   // where `notice` lies once the trainer was asked to end
  std::string result;          // absolute path that must exist; empty: none, or asked for later
  bool said_finished = false;  // it sent X_SPOTTER_FINISHED=1
};

struct Verdict {
  bool success = false;           // the job is done: its result is there
  bool stopped_as_asked = false;  // it ended because we asked; not the job's failure
};

// Exit status 0 is success when the declared result exists. When the trainer had been asked to end,
// status 0 may only mean "saved and stopped", and the result may be an earlier epoch's: then it
// must have said that it is finished, else the next instance starts it again and it ends at once.
// A result that cannot be looked at is not absent: whoever is told of success asks for it again
// (service/act/local.hpp: is_there()).
Verdict judge(const Ended& ended, const Expectation& expectation);

}  // namespace spotter::supervise
