// The experiment that this machine runs: an agent of its own (`spotter agent --once`) in its own
// run directory, under a lease. One at a time.
#pragma once

#include <csignal>

#include "agent/base/names.hpp"
#include "agent/service/service.hpp"

namespace spotter {

class Experiments {
 public:
  // `directory`: has each experiment's run directory. `patience`: with processes that do not end.
  Experiments(asio::io_context& context, std::string job_file, std::string directory,
              Duration patience = std::chrono::minutes(5));

  // Ends and removes what an earlier worker left. Returns when it is gone, or is_stuck(), or soon
  // after hurry().
  asio::awaitable<void> clear();
  void hurry() { hurried_ = true; }
  // Processes of an experiment could not be ended, not even by SIGKILL, such as a trainer that
  // waits for a device for ever: they may still write where the next one would. Nothing begins here
  // any more.
  bool is_stuck() const { return stuck_; }

  // Begins a new turn, which ends the previous one. It may train until `usable_until`.
  using Turn = std::uint64_t;
  Turn begin(std::size_t index, std::uint64_t token, Time usable_until);
  void extend(Time usable_until);
  bool is_on(Turn turn) const { return turn == turn_; }

  // Starts the agent once the previous one is gone, and waits for its end. Returns its exit status
  // (-1: it could not be started; EX_UNAVAILABLE, too, if is_stuck()). REQUIRES: is_on(turn).
  asio::awaitable<int> run(Turn turn);

  // The agent of the current turn was started, and run() has not returned.
  bool is_at_work() const { return busy_ && at_work_ == turn_; }
  // Asks it to checkpoint and end: run() returns interrupted_exit_code, or 0.
  void stop() const { child_.signal(SIGTERM); }
  // Another machine has, or may have, the experiment: kills the trainer at once and ends the turn.
  void end();
  // Ends the turn: an agent that was not started will not be.
  void withdraw() { ++turn_; }
  bool runs() const { return busy_; }

  const std::string& run_directory() const { return run_directory_; }

 private:
  using Clock = std::chrono::steady_clock;
  asio::awaitable<void> remove(std::string directory, Clock::time_point until);
  asio::awaitable<void> kill_in_time();

  asio::io_context& context_;
  std::string job_file_;
  std::string directory_;
  Child child_;
  Duration patience_;
  bool stuck_ = false;
  bool hurried_ = false;
  bool busy_ = false;  // an agent runs, or processes that it left
  Turn turn_ = 0;
  Turn at_work_ = 0;  // the agent that was started last
  std::string run_directory_;
  std::size_t index_ = 0;
  std::uint64_t token_ = 0;
};

}  // namespace spotter
