#include "tests/emulator/containers.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tests/emulator/frames.hpp"
#include "tests/emulator/process_tree.hpp"

namespace spotter::emulator {
namespace {

constexpr std::size_t fixed_words = 5;  // run TASK FOLDER LOG COUNT

struct Command {
  std::string folder;
  std::string log;
  Words arguments;
  Words environment;
};

Command parse(const Words& words) {
  const auto count = static_cast<std::ptrdiff_t>(std::atoi(words[4].c_str()));
  const auto first = words.begin() + fixed_words;
  return {words[2], words[3], Words(first, first + count), Words(first + count, words.end())};
}

std::string variable(const Words& environment, const std::string& name) {
  for (const std::string& it : environment)
    if (it.starts_with(name + "=")) return it.substr(name.size() + 1);
  return {};
}

// Looks where execvp would; empty: found nowhere.
std::string find_program(const Command& command) {
  const std::string& name = command.arguments[0];
  if (name.find('/') != std::string::npos)
    return ::access(name.c_str(), X_OK) == 0 ? name : std::string{};
  std::string path = variable(command.environment, "PATH") + ":";
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = path.find(':', at);
    const std::string candidate = path.substr(at, end - at) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return {};
}

void open_streams(const std::string& log) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(nothing, 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::syscall(SYS_close_range, 3, ~0U, 0);
}

[[noreturn]] void become(const Command& command, const std::string& program) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGTERM, SIG_DFL);
  ::setsid();
  const auto arguments = pointers(command.arguments);
  const auto environment = pointers(command.environment);
  if (::chdir(command.folder.c_str()) == 0)
    ::execve(program.c_str(), arguments.data(), environment.data());
  std::fprintf(stderr, "exec %s: %s\n", program.c_str(), std::strerror(errno));
  ::_exit(126);
}

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Until the command has ended; SIGUSR1 asks it to.
int attend(pid_t command, const sigset_t& signals) {
  for (;;) {
    siginfo_t signal{};
    if (::sigwaitinfo(&signals, &signal) == SIGUSR1) ::kill(command, SIGTERM);
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
      if (pid == command) return exit_code(status);
  }
}

// The container: it ends when its command does, and leaves nothing behind.
[[noreturn]] void contain(const Command& command, const std::string& program) {
  // Here, and not by the emulator: where a link in the host's folder leads is the host's affair.
  std::error_code failed;
  for (const auto& folder : {std::filesystem::path(command.folder),
                             std::filesystem::path(variable(command.environment, "SPOTTER_RUN")),
                             std::filesystem::path(command.log).parent_path()})
    std::filesystem::create_directories(folder, failed);
  ::signal(SIGTERM, SIG_IGN);  // of a host that shuts down: the command has got its own
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  open_streams(command.log);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  const pid_t child = ::fork();
  if (child == 0) become(command, program);
  const int code = child > 0 ? attend(child, signals) : 125;
  kill_tree(::getpid());
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  ::_exit(code);
}

}  // namespace

bool Containers::hear() {
  char bytes[16384];
  const auto size = ::recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size == 0) return false;
  frames_.feed({bytes, static_cast<std::size_t>(size)});
  while (const auto words = frames_.next()) obey(*words);
  return true;
}

void Containers::tell(const Words& words) const {
  const std::string bytes = frame(words);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto size = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (size < 0 && errno != EINTR) return;  // nobody listens any more
    if (size > 0) sent += static_cast<std::size_t>(size);
  }
}

pid_t Containers::find(const std::string& task) const {
  for (const auto& [pid, name] : tasks_)
    if (name == task) return pid;
  return 0;
}

void Containers::obey(const Words& words) {
  if (words[0] == "run") return run(words);
  const pid_t container = find(words[1]);
  if (container <= 0) return;  // it has ended meanwhile
  if (words[0] == "stop") ::kill(container, SIGUSR1);
  if (words[0] == "kill")
    for (const pid_t pid : freeze(container)) ::kill(pid, SIGKILL);
}

void Containers::run(const Words& words) {
  const Command command = parse(words);
  const std::string& task = words[1];
  const std::string program = command.arguments.empty() ? "" : find_program(command);
  if (program.empty()) {
    const std::string name = command.arguments.empty() ? "" : command.arguments[0];
    return tell({"refused", task,
                 "CannotStartContainerError: Error response from daemon: " +
                     (name.empty() ? "no command specified"
                                   : "exec: \"" + name + "\": executable file not found")});
  }
  const pid_t pid = ::fork();
  if (pid == 0) contain(command, program);
  if (pid < 0) return tell({"refused", task, "CannotStartContainerError: fork failed"});
  tasks_[pid] = task;
}

bool Containers::ended(pid_t pid, int status) {
  const auto found = tasks_.find(pid);
  if (found == tasks_.end()) return false;
  tell({"ended", found->second, std::to_string(exit_code(status))});
  tasks_.erase(found);
  return true;
}

}  // namespace spotter::emulator
