// A process as a service: the only one in its run directory, and known to systemd if that started
// it.
#pragma once

#include <sys/types.h>

#include "agent/config/job.hpp"
#include "agent/decide/policy.hpp"
#include "agent/io/asio.hpp"

namespace spotter {

class Service {
 public:
  explicit Service(asio::io_context& context) : watchdog_(context) {}

  // Makes the run directory, and holds its lock until the process ends. False: it cannot, or
  // another agent runs there; the reason was logged.
  bool take(const std::string& run_directory);
  // Does an agent run there?
  static bool is_taken(const std::string& run_directory);
  // Sends READY=1, and feeds the watchdog from now on.
  void ready();

 private:
  void feed(std::chrono::milliseconds every);

  asio::steady_timer watchdog_;
};

// A child process running one of our programs: it writes to our stdout and stderr, and gets SIGTERM
// when this process dies.
class Child : Pinned {
 public:
  explicit Child(asio::io_context& context) : ended_(context) {}

  // argv[0] is a path. `variables` are added to our own; an empty value removes one. REQUIRES: the
  // previous process was awaited.
  Result<void> start(const std::vector<std::string>& argv,
                     const std::map<std::string, std::string>& variables);
  bool runs() const { return pid_ > 0; }
  void signal(int number) const;
  // Its exit status, or 128 plus the signal that ended it. REQUIRES: one caller at a time.
  asio::awaitable<int> wait();

 private:
  asio::posix::stream_descriptor ended_;
  pid_t pid_ = 0;
};

// Converts the job into the core's policy.

// `once`: `spotter run`.
decide::Policy policy_of(const config::Job& job, bool once);
// `spotter prepare`.
decide::Policy policy_to_fill(const config::Job& job);

// A part of a log line about the job: ", experiment 3: {...}", or empty.
std::string of_sweep(const config::Job& job);

// Is PID 1 shutting the machine down? Then the storage must be released, while a mere restart of
// the service must leave the trainer alone.
bool machine_is_stopping();
// Begins to stop the system, as the service of an instance; false: this process is none, or may
// not.
bool power_off_machine();

}  // namespace spotter
