#include "agent/service/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

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

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

Result<void> Child::start(const std::vector<std::string>& argv,
                          const std::map<std::string, std::string>& variables) {
  auto words = argv;
  auto entries = environment_with(variables);
  const auto arguments = pointers(words);
  const auto environment = pointers(entries);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return failure(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {  // we have threads: nothing but system calls from here on
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    ::execve(arguments[0], arguments.data(), environment.data());
    ::_exit(127);
  }
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
