// Once the supervisor says that the trainer has ended, nobody is left of it, however hard it tries.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "agent/supervise/processes.hpp"
#include "agent/units/settings.hpp"
#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

namespace fs = std::filesystem;

class NobodyLeft : public Stage {
 protected:
  // The first words of a trainer whose chains of processes write to this file.
  std::string hopping() const {
    return fs::read_symlink("/proc/self/exe").string() + " hop " + path("written");
  }
  std::uintmax_t written() const { return fs::file_size(path("written")); }
  // We are the sub-reaper above the supervisor: who outlives it is ours.
  void expect_nobody(const Record& trainer, std::uintmax_t at_end) {
    EXPECT_EQ(waitpid(trainer.supervisor_pid, nullptr, 0), trainer.supervisor_pid);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    EXPECT_TRUE(has_no_descendants());
    EXPECT_EQ(written(), at_end) << "something was written after the end";
  }
};

TEST_F(NobodyLeft, OfChainsThatForkAndEnd) {
  const Record trainer = started(spec(hopping() + "; exit 0"));
  const Ended end = wait_for_end();
  const auto at_end = written();
  EXPECT_GT(at_end, 0u);
  EXPECT_EQ(end.left_over, std::vector<LeftOver>());
  expect_nobody(trainer, at_end);
}

TEST_F(NobodyLeft, OfChainsThatAreKilled) {
  const Record trainer = started(spec(hopping() + "; echo up; sleep 1000"));
  ASSERT_TRUE(says("up"));
  ASSERT_TRUE(kill(directory()));
  const Ended end = wait_for_end();
  EXPECT_EQ(end.left_over, std::vector<LeftOver>());
  expect_nobody(trainer, written());
}

TEST_F(NobodyLeft, OfSubReapersBelowSubReapersThatAreStopped) {
  const Record trainer = started(
      spec("for i in 1 2 3 4; do (trap '' TERM; setsid sh -c 'sleep 1000 & kill -STOP $$; wait' & "
           "sleep 1000) & done; " +
           hopping()));
  const Ended end = wait_for_end();
  EXPECT_EQ(end.left_over, std::vector<LeftOver>());
  expect_nobody(trainer, written());
}

TEST_F(NobodyLeft, OfASupervisorThatIsKilledWhereTheTrainerHasAControlGroup) {
  const std::string probe = make_control_group();
  if (probe.empty()) GTEST_SKIP() << "no control group can be made here";
  remove_control_group(probe);
  const Record trainer = started(spec(hopping() + "; echo up; sleep 1000"));
  ASSERT_TRUE(says("up"));
  const auto group = parse_record(read_file(path("supervisor.json"))).value().control_group;
  ASSERT_TRUE(fs::exists(group));
  ::kill(trainer.supervisor_pid, SIGKILL);
  ASSERT_TRUE(eventually([&] { return look(directory()).value().vanished(); }));
  ASSERT_TRUE(eventually([&] { return collect(directory()).has_value(); }));
  EXPECT_FALSE(fs::exists(group));
  expect_nobody(trainer, written());
}

TEST_F(NobodyLeft, NorAControlGroup) {
  started(spec("sleep 1000"));
  const auto group = parse_record(read_file(path("supervisor.json"))).value().control_group;
  ASSERT_TRUE(kill(directory()));
  wait_for_end();
  EXPECT_TRUE(group.empty() || !fs::exists(group)) << group;
}

// In a process of its own: what other tests started may still be ending as a child of this one.
TEST_F(NobodyLeft, IsProvedByTheChildrenAlone) {
  const auto proves = [] {
    if (!has_no_descendants()) return 1;
    const pid_t child = fork();
    if (child == 0) _exit(0);
    siginfo_t ended{};
    waitid(P_PID, child, &ended, WEXITED | WNOWAIT);
    if (has_no_descendants()) return 2;  // an ended one may have left others
    if (!has_no_descendants(child)) return 3;
    waitpid(child, nullptr, 0);
    return has_no_descendants() ? 0 : 4;
  };
  const pid_t prover = fork();
  if (prover == 0) _exit(proves());
  int status = -1;
  waitpid(prover, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(NobodyLeft, AnotherUsersTrainerHasABoundOfProcesses) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a trainer as another user";
  auto bomb = spec("ulimit -u; ulimit -H -u");
  bomb.user = "nobody";
  bomb.shell = "/bin/bash";
  started(bomb);
  EXPECT_EQ(wait_for_end().exit_code, 0);
  const auto soft = std::stoull(log());
  const auto hard = std::stoull(log().substr(log().find('\n')));
  EXPECT_LE(soft, units::most_tasks());
  EXPECT_LE(hard, units::most_tasks());
}

}  // namespace
}  // namespace spotter::supervise
