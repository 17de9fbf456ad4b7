#include "agent/service/service.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "agent/config/parameters.hpp"
#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/units/manager.hpp"
#include "agent/units/settings.hpp"

namespace spotter {

bool Service::take(const std::string& run_directory) {
  const supervise::RunDirectory directory(run_directory);
  if (const auto made = io::make_directories(run_directory, supervise::directory_mode); !made) {
    spdlog::error("cannot make {}: {}. Run as root, or set SPOTTER_RUN", run_directory,
                  made.error().message());
    return false;
  }
  if (const auto ours = directory.make_ours(); !ours) {
    spdlog::error("{}", ours.error().message);
    return false;
  }
  // A second agent would receive the trainer's datagrams, and unmount what the first one uses.
  auto lock = directory.take_agents_lock();
  if (!lock) {
    spdlog::error("{}", lock.error().message);
    return false;
  }
  if (lock->release() >= 0) return true;
  spdlog::error(
      "another agent is at work in {}: one instance runs one agent. Wait for its end, or end it",
      run_directory);
  return false;
}

bool Service::is_taken(const std::string& run_directory) {
  const supervise::RunDirectory directory(run_directory);
  if (::access(directory.file("agent.lock").c_str(), F_OK) != 0) return false;
  const auto lock = directory.take_agents_lock();
  return lock && !*lock;
}

void Service::ready() {
  sd_notify(0, "READY=1");
  std::uint64_t microseconds = 0;
  if (sd_watchdog_enabled(0, &microseconds) > 0) {
    feed(std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::microseconds(microseconds / 2)));
  }
}

void Service::feed(std::chrono::milliseconds every) {
  sd_notify(0, "WATCHDOG=1");
  watchdog_.expires_after(every);
  watchdog_.async_wait([this, every](boost::system::error_code error) {
    if (!error) feed(every);
  });
}

namespace {

std::vector<std::string> environment_with(std::map<std::string, std::string> variables) {
  variables.merge(config::Environment::of_process().variables);
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables)
    if (!value.empty()) entries.push_back(name + "=" + value);
  return entries;
}

// Between SIGTERM and SIGKILL of an engine (Batch, Slurm and Kubernetes wait 30 s by default).
constexpr Duration kEnginesPatience{30'000};

}  // namespace

Result<void> Child::start(const std::vector<std::string>& argv,
                          const std::map<std::string, std::string>& variables) {
  const io::Program program(argv, environment_with(variables));
  const pid_t parent = ::getpid();
  const pid_t pid = io::fork_child([&] {  // other threads exist: system calls only
    if (!io::die_with(parent, SIGTERM)) return 127;
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    program.execute();
    return 127;
  });
  if (pid < 0) return failure(std::string("fork: ") + std::strerror(errno));
  pid_ = pid;
  const auto file = supervise::open_pidfd(pid);
  if (file) {
    ended_.assign(*file);
    return {};
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  pid_ = 0;
  return tl::unexpected(file.error());
}

void Child::signal(int number) const {
  if (runs()) ::kill(pid_, number);
}

asio::awaitable<int> Child::wait() {
  boost::system::error_code ignored;
  co_await ended_.async_wait(asio::posix::stream_descriptor::wait_read,
                             asio::redirect_error(asio::use_awaitable, ignored));
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  ended_.close(ignored);
  co_return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

decide::Policy policy_of(const config::Job& job, bool once) {
  decide::Policy policy;
  policy.foreground = once;
  if (once && job.attempt.empty()) policy.stop_grace = kEnginesPatience;
  if (job.storage.share) {
    policy.storage =
        job.storage.in_bucket() ? decide::StorageKind::Bucket : decide::StorageKind::Share;
    policy.place = ShortText<200>(config::describe(job.storage));
  }
  policy.attempts_without_progress =
      static_cast<std::uint32_t>(job.on_failure.attempts_without_progress);
  policy.starts_per_attempt = static_cast<std::uint32_t>(job.on_failure.starts_per_attempt);
  policy.blocked_limit = job.on_failure.blocked;
  policy.hold_limit = job.on_failure.hold;
  policy.then = job.on_failure.then;
  policy.hours_limit = job.limits.hours.value_or(0);
  policy.dollars_limit = job.limits.dollars.value_or(0);
  policy.fence = job.fence.has_value();
  // When a gang's process ends its record has counted rounds without a new checkpoint, however long
  // each of them took: ten minutes pass until a hang is seen.
  if (job.gang) policy.settled = Duration::max();
  policy.sums_costs = job.gang && (job.limits.hours || job.limits.dollars);
  if (job.gang) policy.replace_after = job.gang->replace_after;
  policy.gang = job.gang && job.gang->min < job.gang->size;
  policy.has_code = job.code.has_value();
  policy.sends_result = job.publish.has_value();
  policy.data = static_cast<std::uint32_t>(job.storage.data.size());
  if (job.launch && job.launch->volume)
    policy.initialization_rate = job.launch->volume->initialization_rate;
  policy.gpus = job.trainer.gpus;
  if (job.fleet) policy.fleet = *job.fleet;
  if (job.trainer.stop_grace) policy.stop_grace = *job.trainer.stop_grace;
  if (job.storage.ebs.consistency_bound) {
    policy.consistency_bound = *job.storage.ebs.consistency_bound;
    policy.commit_call =
        std::clamp(policy.consistency_bound, policy.commit_call_least, policy.commit_call);
  }
  return policy;
}

decide::Policy policy_to_fill(const config::Job& job) {
  decide::Policy policy = policy_of(job, true);
  policy.fills = true;
  policy.sends_result = job.sending.has_value();
  policy.data = 0;
  policy.gpus = 0;
  policy.blocked_retry = Duration(0);  // does not wait for a person
  return policy;
}

std::string of_sweep(const config::Job& job) {
  if (!job.experiment) return {};
  return ", experiment " + std::to_string(job.experiment->index) + ": " +
         sweep::to_json(job.experiment->set);
}

bool machine_is_stopping() {
  const auto manager = units::Manager::connect();
  return manager && (*manager)->system_state() == "stopping";
}

bool power_off_machine() {
  if (!units::wanted()) return false;
  const auto manager = units::Manager::connect();
  return manager && (*manager)->power_off();
}

}  // namespace spotter
