#include "agent/io/child.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef SPOTTER_CLIENT
#include <sys/prctl.h>
#endif

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "agent/io/files.hpp"

extern char** environ;  // POSIX has no header that must declare it

namespace spotter::io {
std::string find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, ':');) {
    const std::string candidate = part + "/" + name;
    if (!part.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

constexpr std::size_t output_limit = 1U << 20;

std::string search_path(const ToolRequest& request) {
  if (!request.path.empty()) return request.path;
  const char* path = std::getenv("PATH");
  const std::string system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  return path == nullptr ? system : std::string(path) + ":" + system;
}

struct ToolStart {
  std::string program;
  std::vector<std::string> environment;
  Descriptor null, out_read, out_write, err_read, err_write;
};

// After fork: only what is safe there. The status to end with: 126, it could not become the user;
// 127, no exec.
int execute_tool(const ToolRequest& request, const ToolStart& start, const Program& program,
                 pid_t parent) {
  if (request.user && ::geteuid() == 0) {
    const User& user = *request.user;
    if (::setgroups(user.groups.size(), user.groups.data()) != 0 || ::setgid(user.gid) != 0 ||
        ::setuid(user.uid) != 0) {
      return 126;
    }
  }
  if (request.own_session) ::setsid();
  if (!die_with(parent, SIGKILL)) return 126;  // after setuid, which clears it
  if (::dup2(start.null.get(), 0) < 0 || ::dup2(start.out_write.get(), 1) < 0 ||
      ::dup2(start.err_write.get(), 2) < 0) {
    return 126;
  }
  if (request.inherited_fd >= 0) ::fcntl(request.inherited_fd, F_SETFD, 0);
  program.execute();
  return 127;
}

// Reads what is there; closes the end at EOF.
void drain(Descriptor& end, std::string& text) {
  std::array<char, 16384> buffer;
  const auto n = ::read(end.get(), buffer.data(), buffer.size());
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) {
    end.close();
    return;
  }
  const std::size_t room = output_limit - text.size();
  text.append(buffer.data(), std::min(room, static_cast<std::size_t>(n)));
}

// False: not all came within the limit.
bool collect(ToolStart& start, std::chrono::seconds limit, ToolResult& result) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + limit;
  while (start.out_read || start.err_read) {
    std::array<pollfd, 2> polled{pollfd{start.out_read.get(), POLLIN, 0},
                                 pollfd{start.err_read.get(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (limit.count() > 0 && left.count() <= 0) return false;
    const int wait = limit.count() > 0 ? static_cast<int>(left.count()) : -1;
    if (::poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR) return true;
    if (polled[0].revents != 0) drain(start.out_read, result.output);
    if (polled[1].revents != 0) drain(start.err_read, result.errors);
  }
  return true;
}

}  // namespace

pid_t fork_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  const auto run = [&body]() noexcept { return body(); };  // nothing of the caller's is unwound
  if (child == 0) ::_exit(run());
  return child;
}

bool die_with(pid_t parent, [[maybe_unused]] int signal) {
#ifndef SPOTTER_CLIENT
  ::prctl(PR_SET_PDEATHSIG, signal);
#endif
  return ::getppid() == parent;
}

Program::Program(std::vector<std::string> arguments,
                 std::optional<std::vector<std::string>> environment, std::string path)
    : own_environment_(environment.has_value()),
      arguments_(std::move(arguments)),
      environment_(std::move(environment).value_or(std::vector<std::string>())),
      path_(path.empty() ? arguments_.at(0) : std::move(path)),
      argument_pointers_(pointers_to(arguments_)),
      environment_pointers_(pointers_to(environment_)) {}

char* const* Program::environment() const {
  return own_environment_ ? environment_pointers_.data() : ::environ;
}

void Program::execute() const { ::execve(path_.c_str(), arguments(), environment()); }

void Program::execute_from_path() const {
#ifndef SPOTTER_CLIENT
  ::execvpe(path_.c_str(), arguments(), environment());
#else
  if (own_environment_) ::environ = const_cast<char**>(environment_pointers_.data());
  ::execvp(path_.c_str(), argument_pointers_.data());
#endif
}

Result<ToolResult, std::error_code> run_tool(const ToolRequest& request) {
  const auto failed = [](int error) {
    return tl::unexpected(std::error_code(error, std::generic_category()));
  };
  ToolStart start;
  const std::string path = search_path(request);
  start.program = find_program(request.argv.at(0), path);
  if (start.program.empty()) return failed(ENOENT);
  start.environment.push_back("PATH=" + path);
  for (const auto& [name, value] : request.environment)
    start.environment.push_back(name + "=" + value);
  start.null = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!start.null || !make_pipe(start.out_read, start.out_write) ||
      !make_pipe(start.err_read, start.err_write))
    return failed(errno);
  const Program program(request.argv, start.environment, start.program);
  const pid_t parent = ::getpid();
  const pid_t pid = fork_child([&] { return execute_tool(request, start, program, parent); });
  if (pid < 0) return failed(errno);
  start.out_write.close();
  start.err_write.close();

  ToolResult result;
  const bool in_time = collect(start, request.limit, result);
  if (!in_time) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return failed(errno);
  if (!in_time) return failed(ETIMEDOUT);
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace spotter::io
