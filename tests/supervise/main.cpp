// The tests run below a guard that outlives them: whatever a failed or crashed test leaves running
// becomes the guard's child and is killed. The same program is `spotter supervise` when called so.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

#include "agent/commands/machine/machine.hpp"
#include "agent/supervise/processes.hpp"
#include "tests/supervise/hop.hpp"

namespace {

int guard(pid_t tests) {
  int status = 0;
  waitpid(tests, &status, 0);
  bool left = false;
  while (true) {
    const auto processes = spotter::supervise::descendants_of(getpid());
    for (const auto& each : processes) kill(each.pid, SIGKILL);
    left = left || !processes.empty();
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (processes.empty()) break;
    usleep(10'000);
  }
  if (left) std::fputs("processes were left behind by the tests\n", stderr);
  return WIFEXITED(status) && !left ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "supervise")
    return spotter::command::supervise(argc - 1, argv + 1);
  if (argc > 2 && std::string_view(argv[1]) == "hop") return spotter::supervise::hop(8, argv[2]);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t tests = fork();
  if (tests != 0) return guard(tests);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
