#include "tests/emulator/process_tree.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace spotter::emulator {
namespace {

std::string field(pid_t pid, const char* file) {
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/" + file), line);
  return line;
}

// A subreaper whose shell leaves a daemon behind: its parent is gone, its session is its own.
// The tree dies with the object: a test that fails leaves no process that holds its output open.
class Tree {
 public:
  Tree() : root_(::fork()) {
    if (root_ != 0) return;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::fork() == 0) {
      ::execl("/bin/sh", "sh", "-c", "setsid sleep 600 & sleep 600 & exit", nullptr);
    }
    for (;;) ::wait(nullptr) < 0 ? ::usleep(1000) : 0;
  }
  ~Tree() { EXPECT_TRUE(end()); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  pid_t root() const { return root_; }

  bool end() {
    if (root_ == 0) return true;
    kill_tree(root_);
    return ::waitpid(std::exchange(root_, 0), nullptr, 0) > 0;
  }

  // Its two sleepers, once the shell has ended and was reaped.
  std::vector<pid_t> await_sleepers() const {
    for (int i = 0; i < 20000; ++i) {
      const auto found = descendants(root_);
      if (found.size() == 2 && std::all_of(found.begin(), found.end(), [](pid_t pid) {
            return field(pid, "comm") == "sleep";
          })) {
        return found;
      }
      ::usleep(1000);
    }
    return {};
  }

 private:
  pid_t root_;
};

TEST(ProcessTree, FindsADaemonThatLeftItsParent) {
  Tree tree;
  const auto found = tree.await_sleepers();
  EXPECT_EQ(found.size(), 2U);
  EXPECT_TRUE(tree.end());
  for (const pid_t pid : found) {
    for (int i = 0; i < 5000 && ::kill(pid, 0) == 0; ++i) ::usleep(1000);
    EXPECT_NE(::kill(pid, 0), 0) << pid;
  }
}

TEST(ProcessTree, FreezesAndThaws) {
  const Tree tree;
  ASSERT_EQ(tree.await_sleepers().size(), 2U);
  const auto state = [](pid_t pid) {
    const std::string line = field(pid, "stat");
    const auto name_end = line.rfind(") ");
    return name_end == std::string::npos ? '?' : line.at(name_end + 2);
  };
  const auto frozen = freeze(tree.root());
  EXPECT_EQ(frozen.size(), 2U);
  for (const pid_t pid : frozen) EXPECT_EQ(state(pid), 'T');
  thaw(frozen);
  for (const pid_t pid : frozen) EXPECT_NE(state(pid), 'T');
}

}  // namespace
}  // namespace spotter::emulator
