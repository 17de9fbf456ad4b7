#include "agent/host/tool.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "agent/io/child.hpp"
#include "agent/io/descriptor.hpp"

namespace spotter::act::host {
namespace {

constexpr std::size_t output_limit = 1U << 20;

std::string search_path() {
  const char* path = std::getenv("PATH");
  const std::string system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  return path == nullptr ? system : std::string(path) + ":" + system;
}

std::string find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, ':');) {
    const std::string candidate = part + "/" + name;
    if (!part.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

struct ToolStart {
  std::string program;
  std::vector<std::string> environment;
  io::Descriptor null, out_read, out_write, err_read, err_write;
};

// After fork: only what is safe there. The status to end with: 126, it could not become the user;
// 127, no exec.
int execute_tool(const ToolRequest& request, const ToolStart& start, const io::Program& program,
                 pid_t parent) {
  if (request.user && ::geteuid() == 0) {
    const User& user = *request.user;
    if (::setgroups(user.groups.size(), user.groups.data()) != 0 || ::setgid(user.gid) != 0 ||
        ::setuid(user.uid) != 0) {
      return 126;
    }
  }
  if (request.own_session) ::setsid();
  if (!io::die_with(parent, SIGKILL)) return 126;  // after setuid, which clears it
  if (::dup2(start.null.get(), 0) < 0 || ::dup2(start.out_write.get(), 1) < 0 ||
      ::dup2(start.err_write.get(), 2) < 0) {
    return 126;
  }
  if (request.inherited_fd >= 0) ::fcntl(request.inherited_fd, F_SETFD, 0);
  program.execute();
  return 127;
}

bool make_pipe(io::Descriptor& read_end, io::Descriptor& write_end) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  read_end = io::Descriptor(ends[0]);
  write_end = io::Descriptor(ends[1]);
  return true;
}

// Reads what is there; closes the end at EOF.
void drain(io::Descriptor& end, std::string& text) {
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

void collect(ToolStart& start, ToolResult& result) {
  while (start.out_read || start.err_read) {
    std::array<pollfd, 2> polled{pollfd{start.out_read.get(), POLLIN, 0},
                                 pollfd{start.err_read.get(), POLLIN, 0}};
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) drain(start.out_read, result.output);
    if (polled[1].revents != 0) drain(start.err_read, result.errors);
  }
}

}  // namespace

Result<ToolResult> run_tool(const ToolRequest& request, const std::string& package) {
  ToolStart start;
  const std::string path = search_path();
  start.program = find_program(request.argv.at(0), path);
  if (start.program.empty()) {
    return fail("tool-missing", "the program '" + request.argv[0] +
                                    "' is not installed; install the package " + package +
                                    " in the image");
  }
  start.environment.push_back("PATH=" + path);
  for (const auto& [name, value] : request.environment) {
    start.environment.push_back(name + "=" + value);
  }
  start.null = io::Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!start.null || !make_pipe(start.out_read, start.out_write) ||
      !make_pipe(start.err_read, start.err_write)) {
    return fail_errno(errno, "cannot start " + request.argv[0]);
  }
  const io::Program program(request.argv, start.environment, start.program);
  const pid_t parent = ::getpid();
  const pid_t pid = io::fork_child([&] { return execute_tool(request, start, program, parent); });
  if (pid < 0) return fail_errno(errno, "cannot start " + request.argv[0]);
  start.out_write.close();
  start.err_write.close();

  ToolResult result;
  collect(start, result);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail_errno(errno, "cannot wait for " + request.argv[0]);
  }
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string last_words(const ToolResult& result) {
  constexpr std::size_t enough = 400;
  std::string words = result.errors.empty() ? result.output : result.errors;
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  if (words.size() > enough) words = "..." + words.substr(words.size() - enough);
  for (char& letter : words) {
    if (letter == '\n' || letter == '\r') letter = ' ';
  }
  return words.empty() ? "it said nothing, exit status " + std::to_string(result.status) : words;
}

}  // namespace spotter::act::host
