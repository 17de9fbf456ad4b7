#include "tests/supervise/hop.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

namespace spotter::supervise {

int hop(int chains, const char* name) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const int file = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::signal(signal, SIG_IGN);
  for (int chain = 0; chain < chains; ++chain) {
    if (fork() != 0) continue;
    while (std::chrono::steady_clock::now() < end) {
      if (fork() != 0) _exit(0);
      setsid();
      [[maybe_unused]] const auto written = write(file, ".", 1);
    }
    _exit(0);
  }
  return 0;
}

}  // namespace spotter::supervise
