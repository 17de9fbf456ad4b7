#include "agent/supervise/sidecar.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "agent/io/child.hpp"
#include "agent/supervise/processes.hpp"

namespace spotter::supervise {
namespace {

constexpr const char* ready = "ready";
constexpr std::string_view name_of_file = "companion.pid";  // "PID TICKS\n"

Result<void> name_this_process(const std::string& run_directory) {
  const auto self = find_process(getpid());
  const auto ticks = self ? self->start_ticks : 0;
  return RunDirectory(run_directory)
      .replace(name_of_file, std::to_string(getpid()) + " " + std::to_string(ticks) + "\n");
}

// Returns only on failure: the exit status.
int execute_sidecar(const io::Program& program, const std::string& name,
                    const std::string& run_directory, int input, int output, pid_t supervisor) {
  if (!io::die_with(supervisor, SIGKILL)) return 1;
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(input, 0);
  dup2(output, 1);
  const auto named = run_directory.empty() ? Result<void>() : name_this_process(run_directory);
  if (!named) {
    dprintf(1, "%s\n", named.error().message.c_str());
    return 1;
  }
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  program.execute();
  dprintf(1, "cannot run %s: %s\n", name.c_str(), std::strerror(errno));
  return 1;
}

Result<pid_t> run_beside(const std::vector<std::string>& arguments, const std::string& directory,
                         const std::optional<std::vector<std::string>>& environment, int input,
                         int output) {
  const io::Program program(arguments, environment);
  const pid_t supervisor = getpid();
  const pid_t pid = io::fork_child([&] {
    return execute_sidecar(program, arguments.front(), directory, input, output, supervisor);
  });
  if (pid < 0) return failure("fork: " + std::string(std::strerror(errno)));
  return pid;
}

// True for variables that identify the trainer at AWS, or lead there. The sidecar's child that
// copies checkpoints to S3 does so in the trainer's name.
bool leads_to_aws(std::string_view variable) {
  const auto named = variable.substr(0, variable.find('='));
  constexpr std::array<std::string_view, 6> proxies = {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY",
                                                       "http_proxy",  "NO_PROXY",    "no_proxy"};
  return named.starts_with("AWS_") || std::ranges::find(proxies, named) != proxies.end();
}

}  // namespace

std::vector<std::string> environment_of_sidecar(const Spec& spec) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each)
    if (!std::string_view(*each).starts_with("AWS_")) all.emplace_back(*each);
  for (const auto& [name, value] : spec.environment) {
    if (!leads_to_aws(name)) continue;
    std::erase_if(all, [&name](const std::string& other) { return other.starts_with(name + "="); });
    all.push_back(name + "=" + value);
  }
  return all;
}

bool is_sidecar(const std::string& run_directory, pid_t pid) {
  std::ifstream file(RunDirectory(run_directory).file(name_of_file));
  pid_t number = 0;
  std::uint64_t ticks = 0;
  if (!(file >> number >> ticks) || number != pid) return false;
  const auto process = find_process(pid);
  return !process || process->start_ticks == ticks;  // its last messages may be unread
}

// A line of its stdout without the newline, or the part of it that came within `limit`, but no more
// than `longest`: other programs of the trainer's user may write to it, too, and without an end.
std::string Sidecar::read_word(std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t longest = 4096;
  const auto end = Clock::now() + limit;
  std::string line;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd watched{words_.get(), POLLIN, 0};
    const int seen = poll(&watched, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (seen < 0 && errno == EINTR) continue;
    if (seen <= 0) return line;
    char each = 0;
    const ssize_t got = read(words_.get(), &each, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || each == '\n' || line.size() == longest) return line;
    line += each;
  }
}

Sidecar::Sidecar(std::vector<std::string> arguments, std::string run_directory,
                 std::optional<std::vector<std::string>> environment)
    : Sidecar(std::move(arguments),
              [directory = std::move(run_directory), environment = std::move(environment)](
                  const std::vector<std::string>& words, int input, int output) {
                return run_beside(words, directory, environment, input, output);
              }) {}

Result<std::string> Sidecar::begin(std::chrono::milliseconds limit) {
  if (arguments_.empty()) return "";
  TRY(spawn(arguments_));
  return read_word(limit);
}

Result<void> Sidecar::start(std::chrono::milliseconds limit) {
  const std::string line = TRY(begin(limit));
  if (line == ready || arguments_.empty()) return {};
  kill();
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  if (!line.empty()) return failure(line);
  const bool ran = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return failure(arguments_.front() + (ran ? " does not get ready" : " ended without a message"));
}

Result<void> Sidecar::restart() {
  pid_ = 0;
  std::string line = read_word({});
  if (line == ready) line.clear();
  if (++restarts_ > restarts_limit) {
    return failure(arguments_.front() + " ended too often, and is not restarted" +
                   (line.empty() ? "" : ": " + line));
  }
  auto arguments = arguments_;
  arguments.emplace_back("--again");
  TRY(spawn(arguments));
  return line.empty() ? Result<void>() : failure(line);
}

Result<void> Sidecar::spawn(const std::vector<std::string>& arguments) {
  Descriptor its_input, its_output;
  // A pipe that others have filled holds nobody up.
  if (!io::make_pipe(its_input, stdin_) || !io::make_pipe(words_, its_output) ||
      fcntl(stdin_.get(), F_SETFL, O_NONBLOCK) != 0)
    return failure("pipe: " + std::string(std::strerror(errno)));
  pid_ = TRY(spawn_(arguments, its_input.get(), its_output.get()));
  return {};
}

void Sidecar::send(const std::string& word) const {
  if (pid_ == 0) return;
  [[maybe_unused]] const auto written = write(stdin_.get(), word.data(), word.size());
}

void Sidecar::kill() const {
  if (pid_ != 0) ::kill(pid_, SIGKILL);
}

}  // namespace spotter::supervise
