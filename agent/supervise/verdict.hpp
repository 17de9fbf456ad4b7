// What an ended trainer's exit means for the job.
#pragma once

#include <string>

#include "agent/supervise/client.hpp"

namespace spotter::supervise {

struct Expectation {
  std::string run_directory;   // where `notice` is once the trainer was asked to end
  std::string result;          // absolute path that must exist; empty: none, or checked later
  bool said_finished = false;  // it sent X_SPOTTER_FINISHED=1
  std::string job{};           // whose end it must be; empty: of whichever job
  bool gang = false;           // `spotter gang` ended, with its own exit status
  bool never_asks = false;     // stop_signal: none: a notice asks nothing of it
};

struct Verdict {
  bool success = false;             // the job is done: its result exists
  bool stopped_as_asked = false;    // it ended because we asked; not the job's failure
  bool unfit_machine = false;       // its gang says so
  bool checkpoint_doubted = false;  // no attempt: the next one goes on from another checkpoint
};

// An end that lies there from another job says nothing of this one, nor of its machine: that job's
// agent was killed before it had collected it. Exit status 0 is success when the declared result
// exists. When the trainer had been asked to end, status 0 may mean only that it saved and stopped,
// and the result may be an earlier epoch's: it must also have said that it is finished. Otherwise
// the next instance starts it again, and it ends at once. A result that cannot be checked counts as
// present: on success the caller checks it again (service/act/local.hpp: is_there()).
Verdict judge(const Ended& ended, const Expectation& expectation);

// collect(), but where the end says that the machine is unfit: that is kept until the machine is
// gone, or an agent that is started again would train on it.
Result<void> forget(const Expectation& expectation);

}  // namespace spotter::supervise
