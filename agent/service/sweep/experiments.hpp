// The experiment that this machine works on: an agent of its own (`spotter agent --once`) in a run
// directory of its own, under a lease. One at a time.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

#include "agent/base/names.hpp"
#include "agent/service/child.hpp"

namespace spotter {

class Experiments {
 public:
  // `directory`: each experiment's run directory is below it.
  Experiments(asio::io_context& context, std::string job_file, std::string directory);

  // What a worker before us has left is ended and taken away. Returns when it is gone.
  asio::awaitable<void> clear();

  // The turn of a new one; whatever ran before has no turn any more. It may train until then.
  using Turn = std::uint64_t;
  Turn begin(std::size_t index, std::uint64_t token, Time usable_until);
  void extend(Time usable_until);
  bool is_on(Turn turn) const { return turn == turn_; }

  // Starts the agent, once the one before is gone, and waits for its end. Its exit status (-1: it
  // could not be started). REQUIRES: the turn is on.
  asio::awaitable<int> run(Turn turn);

  // Its agent, whose turn it is, was started, and run() has not answered yet.
  bool is_at_work() const { return busy_ && at_work_ == turn_; }
  // It is to checkpoint and end: run() answers with interrupted_exit_code, or with 0.
  void stop() const { child_.signal(SIGTERM); }
  // It is somebody else's, or may be: the trainer is killed at once, and it has no turn any more.
  void end();
  // Nobody has a turn any more: what was not started yet never is.
  void withdraw() { ++turn_; }
  bool runs() const { return busy_; }

  const std::string& run_directory() const { return run_directory_; }

 private:
  asio::awaitable<void> remove(std::string directory);
  asio::awaitable<void> kill_in_time();
  asio::awaitable<void> pause();

  asio::io_context& context_;
  std::string job_file_;
  std::string directory_;
  Child child_;
  bool busy_ = false;  // an agent, or something that it has left
  Turn turn_ = 0;
  Turn at_work_ = 0;  // whose agent was started last
  std::string run_directory_;
  std::size_t index_ = 0;
  std::uint64_t token_ = 0;
};

}  // namespace spotter
