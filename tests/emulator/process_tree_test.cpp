#include "tests/emulator/process_tree.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace spotter::emulator {
namespace {

// A subreaper whose shell leaves a daemon behind: its parent is gone, its session is its own.
pid_t start_tree() {
  const pid_t root = ::fork();
  if (root != 0) return root;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::fork() == 0) ::execl("/bin/sh", "sh", "-c", "setsid sleep 600 & sleep 600 & exit", nullptr);
  for (;;) ::wait(nullptr) < 0 ? ::usleep(1000) : 0;
}

std::vector<pid_t> await_descendants(pid_t root, std::size_t count) {
  for (int i = 0; i < 5000; ++i) {
    if (const auto found = descendants(root); found.size() == count) return found;
    ::usleep(1000);
  }
  return {};
}

TEST(ProcessTree, FindsADaemonThatLeftItsParent) {
  const pid_t root = start_tree();
  // The shell has ended and was reaped when only its two children are left.
  const auto found = await_descendants(root, 2);
  EXPECT_EQ(found.size(), 2U);
  kill_tree(root);
  EXPECT_EQ(::waitpid(root, nullptr, 0), root);
  for (const pid_t pid : found) {
    for (int i = 0; i < 5000 && ::kill(pid, 0) == 0; ++i) ::usleep(1000);
    EXPECT_NE(::kill(pid, 0), 0) << pid;
  }
}

TEST(ProcessTree, FreezesAndThaws) {
  const pid_t root = start_tree();
  await_descendants(root, 2);
  const auto state = [](pid_t pid) {
    std::string line;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), line);
    return line.at(line.rfind(") ") + 2);
  };
  const auto frozen = freeze(root);
  EXPECT_EQ(frozen.size(), 2U);
  for (const pid_t pid : frozen) EXPECT_EQ(state(pid), 'T');
  thaw(frozen);
  for (const pid_t pid : frozen) EXPECT_NE(state(pid), 'T');
  kill_tree(root);
  EXPECT_EQ(::waitpid(root, nullptr, 0), root);
}

}  // namespace
}  // namespace spotter::emulator
