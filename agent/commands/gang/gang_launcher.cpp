#include "agent/commands/gang/gang_launcher.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/processes.hpp"

namespace spotter::command {
namespace {

constexpr int not_found_status = 127;    // as a shell has it
constexpr int turns_for_the_rest = 500;  // of 10 ms: one in the kernel is left to it

std::vector<std::string> gang_environment(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> entries;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry(*each);
    if (!variables.contains(std::string(entry.substr(0, entry.find('=')))))
      entries.emplace_back(entry);
  }
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

// Or started by one. A daemon that the command's shell began is none.
bool is_rank(pid_t process) {
  constexpr std::size_t longest = 4U << 20;
  const auto variables = io::read_file("/proc/" + std::to_string(process) + "/environ", longest);
  return variables && (std::string(1, '\0') + *variables).find(std::string("\0LOCAL_RANK=", 12)) !=
                          std::string::npos;
}

// Workers whose torchrun was killed are this process's children now: beside those of the next round
// they would keep the GPUs and the checkpoints.
void end_the_rest() {
  supervise::Children rest(0);
  for (int turn = 0; turn < turns_for_the_rest && !supervise::has_no_descendants(); ++turn) {
    rest.kill();
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    if (supervise::has_no_descendants()) return;
    ::usleep(10'000);
  }
}

constexpr int turns_for_orphans = 40;  // one in the kernel is left to it

}  // namespace

GangLauncher::GangLauncher(asio::io_context& context, std::vector<std::string> command,
                           std::function<void(int status)> ended)
    : command_(std::move(command)), ended_(std::move(ended)), process_(context) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Result<void> GangLauncher::start(const std::map<std::string, std::string>& variables) {
  const io::Program program(command_, gang_environment(variables));
  const pid_t parent = ::getpid();
  const pid_t pid = io::fork_child([&] {
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (io::die_with(parent, SIGKILL)) program.execute_from_path();
    return not_found_status;
  });
  if (pid < 0) return failure(std::string("fork: ") + std::strerror(errno));
  const auto file = supervise::open_pidfd(pid);
  if (!file) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return tl::unexpected(file.error());
  }
  pid_ = pid;
  process_.assign(*file);
  process_.async_wait(asio::posix::stream_descriptor::wait_read, [this](auto error) {
    if (error) return;
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    process_.close();
    end_the_rest();
    ended_(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  });
  return {};
}

bool GangLauncher::has(pid_t process) const {
  if (pid_ == 0) return false;
  if (process == pid_) return true;
  const auto below = supervise::descendants_of(pid_);
  return std::ranges::find(below, process, &supervise::Process::pid) != below.end();
}

void GangLauncher::kill() {
  if (pid_ == 0) return;
  supervise::signal_descendants(pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
}

// Leaves torchrun to the handler of its end; what ended after it is reaped after it.
void GangLauncher::reap() const {
  for (;;) {
    siginfo_t ended{};
    if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) return;
    if (ended.si_pid == pid_) return;
    ::waitpid(ended.si_pid, nullptr, WNOHANG);
  }
}

bool GangLauncher::end_orphans() const {
  bool found = false;
  for (const supervise::Process& each : supervise::all_processes()) {
    if (each.parent != ::getpid() || each.pid == pid_ || !is_rank(each.pid)) continue;
    found = true;
    ::kill(each.pid, SIGKILL);
  }
  return found;
}

void GangLauncher::end_workers(pid_t torchrun) { supervise::signal_descendants(torchrun, SIGKILL); }

std::optional<gang::Place> GangHandover::look() {
  if (!participant_.has_place()) return std::nullopt;
  if (turns_ < turns_for_orphans && launcher_.end_orphans()) {
    ++turns_;
    return std::nullopt;
  }
  in_vain_ = torchrun_ != 0 && !launcher_.has(torchrun_);
  return in_vain_ ? std::nullopt : participant_.place();
}

}  // namespace spotter::command
