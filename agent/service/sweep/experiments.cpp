#include "agent/service/sweep/experiments.hpp"

#include <spdlog/spdlog.h>

#include <csignal>
#include <filesystem>

#include "agent/io/files.hpp"
#include "agent/service/service.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/here.hpp"
#include "agent/supervise/lease.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/sweep/claim.hpp"

namespace spotter {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "of-";  // short, as sockets are below it
constexpr Duration kBetweenLooks{200};
constexpr int kMostPauses = 1500;        // five minutes
constexpr int kPausesUntilKilled = 150;  // 30 s: its trainer is dead already

bool has_trainer(const std::string& directory) {
  const auto seen = supervise::look(directory);
  return seen && (std::holds_alternative<supervise::Running>(*seen) ||
                  std::holds_alternative<supervise::Starting>(*seen));
}

}  // namespace

Experiments::Experiments(asio::io_context& context, std::string job_file, std::string directory)
    : context_(context),
      job_file_(std::move(job_file)),
      directory_(std::move(directory)),
      child_(context) {}

asio::awaitable<void> Experiments::pause() {
  asio::steady_timer timer(context_, kBetweenLooks);
  co_await timer.async_wait(asio::use_awaitable);
}

// An agent that loses its parent releases the job; a trainer that loses its agent does not end by
// itself.
asio::awaitable<void> Experiments::remove(std::string directory) {
  for (int pauses = 0;; ++pauses) {
    const bool taken = Service::is_taken(directory);
    if (!taken && has_trainer(directory)) (void)supervise::kill(directory);
    if (!taken && !has_trainer(directory)) break;
    if (pauses == 0) spdlog::info("waiting for the processes that still run in {}", directory);
    if (pauses == kMostPauses) {
      spdlog::error("the processes in {} do not end: their lease will end them", directory);
      co_return;
    }
    auto waiting = pause();
    co_await std::move(waiting);
  }
  (void)supervise::collect(directory);
  std::error_code ignored;
  fs::remove_all(directory, ignored);
}

asio::awaitable<void> Experiments::clear() {
  std::vector<std::string> left;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory_, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix)) left.push_back(entry.path());
  }
  for (const std::string& each : left) {
    auto removing = remove(each);
    co_await std::move(removing);
  }
}

Experiments::Turn Experiments::begin(std::size_t index, std::uint64_t token, Time usable_until) {
  index_ = index;
  token_ = token;
  run_directory_ =
      directory_ + "/" + std::string(kPrefix) + std::to_string(index) + "-" + std::to_string(token);
  (void)io::make_directories(run_directory_, supervise::directory_mode);
  extend(usable_until);
  return ++turn_;
}

// If it fails, the lease ends the trainer, which is safe.
void Experiments::extend(Time usable_until) {
  const auto written =
      supervise::write_lease(run_directory_ + "/lease", usable_until.time_since_epoch().count());
  if (!written) spdlog::error("{}", written.error().message);
}

asio::awaitable<int> Experiments::run(Turn turn) {
  while (busy_) {
    auto waiting = pause();
    co_await std::move(waiting);
  }
  if (!is_on(turn)) co_return -1;
  const std::string here = run_directory_;
  const std::map<std::string, std::string> variables = {
      {"SPOTTER_EXPERIMENT", std::to_string(index_)},
      {"SPOTTER_ATTEMPT", sweep::attempt_name(token_)},
      {"SPOTTER_RUN", here},
      {"SPOTTER_LEASE", here + "/lease"},
      {"NOTIFY_SOCKET", ""},  // only the worker is the service
      {"WATCHDOG_USEC", ""},
      {"WATCHDOG_PID", ""}};
  const std::vector<std::string> words = {command::own_program(), "agent", "--once", "--job",
                                          job_file_};
  busy_ = true;
  at_work_ = turn;
  if (const auto started = child_.start(words, variables); !started) {
    spdlog::error("cannot start the experiment's agent: {}", started.error().message);
    busy_ = false;
    co_return -1;
  }
  auto waiting = child_.wait();
  const int status = co_await std::move(waiting);
  auto removing = remove(here);
  co_await std::move(removing);
  busy_ = false;
  co_return status;
}

void Experiments::end() {
  withdraw();
  (void)supervise::kill(run_directory_);
  stop();
  asio::co_spawn(context_, kill_in_time(), asio::detached);
}

// The next agent may start the moment that this one has ended.
asio::awaitable<void> Experiments::kill_in_time() {
  const Turn ended = at_work_;
  for (int pauses = 0; child_.runs() && at_work_ == ended; ++pauses) {
    if (pauses == kPausesUntilKilled) child_.signal(SIGKILL);
    auto waiting = pause();
    co_await std::move(waiting);
  }
}

}  // namespace spotter
