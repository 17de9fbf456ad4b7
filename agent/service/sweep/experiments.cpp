#include "agent/service/sweep/experiments.hpp"

#include <spdlog/spdlog.h>
#include <sysexits.h>

#include "agent/config/run.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/sweep/claim.hpp"
#include "agent/wire/events.hpp"

namespace spotter {
namespace {

constexpr std::string_view kPrefix = "of-";  // short, as sockets are below it
constexpr Duration kBetweenLooks{200};
constexpr int kPausesUntilKilled = 150;  // 30 s: its trainer is dead already

bool has_trainer(const std::string& directory) {
  const auto seen = supervise::look(directory);
  return seen ? seen->runs() : supervise::has_supervisor(directory);
}

// Fails as long as something of a trainer is left there, also of one whose supervisor has ended. An
// unreadable record names no process to wait for.
Result<void> be_over(const std::string& directory) {
  if (has_trainer(directory)) return failure("the trainer in " + directory + " has not ended");
  auto gone = supervise::collect(directory);
  if (gone) gone = supervise::nobody_left(directory);
  if (gone || gone.error().kind == supervise::processes_left) return gone;
  spdlog::warn("{} is removed although it cannot be read: {}", directory, gone.error().message);
  return {};
}

}  // namespace

Experiments::Experiments(asio::io_context& context, std::string job_file, std::string directory,
                         Duration patience)
    : context_(context),
      job_file_(std::move(job_file)),
      directory_(std::move(directory)),
      child_(context),
      patience_(patience) {}

// An agent that loses its parent releases the job; a trainer that loses its agent does not end by
// itself.
asio::awaitable<void> Experiments::remove(std::string directory, Clock::time_point until) {
  for (bool first = true;; first = false) {
    const bool taken = Service::is_taken(directory);
    if (!taken && has_trainer(directory)) (void)supervise::kill(directory);
    Result<void> over = failure("an agent is still at work in " + directory);
    if (!taken) over = be_over(directory);
    if (over) break;
    if (hurried_ && !busy_) co_return;
    if (first) spdlog::info("waiting for the processes that still run in {}", directory);
    if (Clock::now() >= until) {
      stuck_ = true;
      io::note(wire::event("machine-unfit"), spdlog::level::err,
               "what ran in {} may write where the next experiment would: this machine begins "
               "none: {}",
               directory, over.error().message);
      co_return;
    }
    co_await io::wait_for(kBetweenLooks);
  }
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
  const auto until = Clock::now() + patience_;
  for (const std::string& each : left) {
    co_await remove(each, until);
    if (stuck_ || hurried_) co_return;
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
    co_await io::wait_for(kBetweenLooks);
  }
  if (!is_on(turn)) co_return -1;
  if (stuck_) co_return EX_UNAVAILABLE;
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
  const int status = co_await child_.wait();
  co_await remove(here, Clock::now() + patience_);
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
    co_await io::wait_for(kBetweenLooks);
  }
}

}  // namespace spotter
