#include "agent/service/follow.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "agent/io/child.hpp"

namespace spotter::command {
namespace {

using namespace std::chrono_literals;

volatile std::sig_atomic_t end_requested = 0;

// False: the output has no reader any more.
bool print(const char* bytes, ssize_t count) {
  while (count > 0) {
    const ssize_t put = ::write(STDOUT_FILENO, bytes, static_cast<std::size_t>(count));
    if (put < 0) return false;
    bytes += put;
    count -= put;
  }
  return true;
}

bool print_new(const std::string& path, off_t& at) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  struct stat status {};
  if (::fstat(file, &status) == 0 && status.st_size < at) at = 0;
  std::array<char, 65536> buffer;
  ssize_t got = 0;
  bool read_on = true;
  while (read_on && (got = ::pread(file, buffer.data(), buffer.size(), at)) > 0) {
    at += got;
    // Parts that were moved to the storage meanwhile read as zeros (host/share.hpp).
    const auto* end = std::remove(buffer.data(), buffer.data() + got, '\0');
    read_on = print(buffer.data(), end - buffer.data());
  }
  ::close(file);
  return read_on;
}

[[noreturn]] void follow(const std::string& path, off_t at) {
  for (;;) {
    const bool last = end_requested != 0;
    if (!print_new(path, at) || last) std::_Exit(0);
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace

// Skips what an earlier run wrote, which that run printed.
Follower::Follower(const std::string& path) {
  struct stat status {};
  const off_t begin = ::stat(path.c_str(), &status) == 0 ? status.st_size : 0;
  const pid_t parent = ::getpid();
  process_ = io::fork_child([&] {
    ::signal(SIGINT, SIG_IGN);  // of the terminal, sent to all of us: the agent ends this process
    ::signal(SIGTERM, [](int) { end_requested = 1; });
    if (io::die_with(parent, SIGTERM)) follow(path, begin);
    return 0;
  });
}

Follower::~Follower() {
  if (process_ <= 0) return;
  ::kill(process_, SIGTERM);
  for (int i = 0; i < 200; ++i) {
    if (::waitpid(process_, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(10ms);
  }
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace spotter::command
