#include "agent/service/child.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "agent/io/child.hpp"
#include "agent/job/job.hpp"
#include "agent/supervise/client.hpp"

namespace spotter {
namespace {

std::vector<std::string> environment_with(std::map<std::string, std::string> variables) {
  variables.merge(config::Environment::of_process().variables);
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables)
    if (!value.empty()) entries.push_back(name + "=" + value);
  return entries;
}

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

}  // namespace spotter
