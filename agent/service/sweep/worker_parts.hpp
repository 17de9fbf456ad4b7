// A machine that works on the experiments of a job (worker.hpp): worker.cpp has its sessions,
// worker_turn.cpp what it does for one experiment, worker_leaving.cpp why and how it releases all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/service/machine.hpp"
#include "agent/service/service.hpp"
#include "agent/service/sweep/attempts.hpp"
#include "agent/service/sweep/claims.hpp"
#include "agent/service/sweep/experiments.hpp"

namespace spotter {

class Worker {
 public:
  Worker(asio::io_context& context, config::Job job, std::vector<sweep::Set> sets,
         const std::string& job_file);
  int run();

 private:
  static constexpr Duration between_tries{5'000};

  asio::awaitable<void> run_sessions();
  asio::awaitable<void> pause(Duration duration = between_tries);
  using Try = std::function<asio::awaitable<Result<void>>()>;
  asio::awaitable<bool> retry_until_done(std::string trouble, Try attempt);
  asio::awaitable<void> retry_storage();

  void claim(std::vector<bool> near);
  void carry_out(const sweep::Order& order);
  void begin_leaving(bool at_once);
  asio::awaitable<void> find_parent(std::uint64_t number, sweep::FindParent ask);
  asio::awaitable<void> train(sweep::Begin begin, Experiments::Turn turn);
  asio::awaitable<void> run_turn(sweep::Begin begin, Experiments::Turn turn);
  void ended(std::size_t index, int status);
  asio::awaitable<void> publish(sweep::Published published);
  asio::awaitable<bool> publish_result(const sweep::Published& published);
  void idle(std::size_t unfinished);

  asio::awaitable<bool> leave();                                           // true: for good
  asio::awaitable<bool> leave_fleet(std::optional<std::uint32_t> needed);  // false: it stays
  asio::awaitable<void> leave_unfit();
  void noticed(const decide::Happening& what);
  void await_signal();
  void say(const std::string& words);
  void show() const;

  asio::io_context& context_;
  config::Job job_;
  decide::Policy policy_;
  std::string run_directory_;
  Machine machine_;
  Attempts attempts_;
  Experiments experiments_;
  asio::signal_set signals_;
  Service service_;
  std::string words_, trouble_;  // for `spotter status`
  std::unique_ptr<Claims> claims_;
  int publishing_ = 0;  // experiments
  int idle_looks_ = 0;
  int failures_ = 0;  // consecutive ones on this machine
  // Why this machine releases what it holds, if it does.
  enum class Leaving : std::uint8_t { No, Again, Asked, Interrupted, NothingFree, AllDone, Broken };
  Leaving leaving_ = Leaving::No;
  std::size_t unfinished_ = 0;  // of NothingFree: running elsewhere
  Time deadline_{};             // of Interrupted
  int exit_status_ = 0;
};

}  // namespace spotter
