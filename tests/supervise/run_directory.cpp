// Rights to the files of a run directory: other users of the machine, and what an older version
// left.
#include "agent/supervise/run_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

namespace fs = std::filesystem;

constexpr uid_t somebody = 65534;

class OfOthers : public Stage {
 protected:
  // The exit status of what another user of this machine does.
  template <class Attempt>
  static int as_somebody(Attempt attempt) {
    const pid_t child = fork();
    if (child == 0) _exit(setgid(somebody) == 0 && setuid(somebody) == 0 ? attempt() : 100);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void leave(const std::string& name, mode_t mode) const {
    std::ofstream(path(name)) << "left";
    fs::permissions(path(name), fs::perms(mode));
  }
  mode_t mode_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(lstat(path(name).c_str(), &status), 0) << name;
    return status.st_mode & 07777;
  }
  RunDirectory run() const { return RunDirectory(directory()); }
};

TEST_F(OfOthers, NobodyElseHoldsALockOfOurs) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  leave("agent.lock", 0644);  // of an older version
  leave("supervisor.lock", 0644);
  ASSERT_TRUE(run().make_ours());
  const auto hold = [&] {
    int held = 0;
    for (const char* name : {"agent.lock", "supervisor.lock"}) {
      const int lock = open(path(name).c_str(), O_RDONLY | O_CLOEXEC);
      struct flock reading {};
      reading.l_type = F_RDLCK;
      if (lock >= 0 && flock(lock, LOCK_SH) == 0) ++held;
      if (lock >= 0 && fcntl(lock, F_OFD_SETLK, &reading) == 0) ++held;
      if (lock >= 0 && fcntl(lock, F_SETLEASE, F_RDLCK) == 0) ++held;
    }
    return held;
  };
  EXPECT_EQ(as_somebody(hold), 0);
  EXPECT_TRUE(run().take_agents_lock()->get() >= 0);
  EXPECT_TRUE(try_lock(*run().open_lock()));
}

TEST_F(OfOthers, TheAgentsLockIsHeldByOne) {
  const auto one = run().take_agents_lock();
  ASSERT_TRUE(one && *one);
  const auto two = run().take_agents_lock();
  EXPECT_TRUE(two && !*two);
}

TEST_F(OfOthers, WhatAnOlderVersionLeftIsTakenFromThem) {
  for (const char* name : {"ended.json", "history.jsonl", "anything", "status.json", "notice"})
    leave(name, 0644);
  ASSERT_EQ(chmod(directory().c_str(), 0777), 0);
  ASSERT_TRUE(run().make_ours());
  EXPECT_EQ(mode_of("."), 0755u);
  for (const char* name : {"ended.json", "history.jsonl", "anything"})
    EXPECT_EQ(mode_of(name), 0600u) << name;
  for (const char* name : {"status.json", "notice"})
    EXPECT_EQ(mode_of(name), 0644u) << name << " is for others";
}

TEST_F(OfOthers, WhatALifeLeavesIsItsOwnersAlone) {
  std::ofstream(path("companion")) << "#!/bin/sh\necho ready; read line\n";
  fs::permissions(path("companion"), fs::perms(0700));
  auto what = spec("echo a secret of the trainer; exit 3");
  what.sidecar = {path("companion")};
  what.lease = path("lease");
  ASSERT_TRUE(write_lease(what.lease, boottime_milliseconds() + 3'600'000));
  started(what);
  EXPECT_EQ(wait_for_end().last_words, "a secret of the trainer");
  int files = 0;
  for (const auto& entry : fs::directory_iterator(directory())) {
    ++files;
    EXPECT_EQ(mode_of(entry.path().filename()) & 077, 0u) << entry.path();
  }
  EXPECT_GE(files, 5);
}

TEST_F(OfOthers, InAnothersDirectoryNothingBegins) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(chown(directory().c_str(), somebody, somebody), 0);
  const auto ours = run().make_ours();
  ASSERT_FALSE(ours);
  EXPECT_NE(ours.error().message.find("belongs to nobody (uid 65534)"), std::string::npos);
  EXPECT_FALSE(start(directory(), spec("true")));
  EXPECT_EQ(log(), "");
}

TEST_F(OfOthers, ALinkIsNoDirectory) {
  fs::create_directory(path("real"));
  fs::create_symlink(path("real"), path("link"));
  EXPECT_TRUE(RunDirectory(path("real")).make_ours());
  EXPECT_FALSE(RunDirectory(path("link")).make_ours());
}

TEST_F(OfOthers, WhatIsNoPlainFileOfOurOwnIsNotOpened) {
  leave("victim", 0644);
  fs::create_symlink(path("victim"), path("agent.lock"));
  EXPECT_FALSE(run().take_agents_lock());
  fs::remove(path("agent.lock"));
  fs::create_hard_link(path("victim"), path("agent.lock"));
  EXPECT_FALSE(run().take_agents_lock());
  fs::remove(path("agent.lock"));
  ASSERT_EQ(mkfifo(path("agent.lock").c_str(), 0600), 0);
  EXPECT_FALSE(run().take_agents_lock()) << "and it is not waited for";
  EXPECT_EQ(mode_of("victim"), 0644u);
  EXPECT_EQ(read_file(path("victim")), "left");
}

TEST_F(OfOthers, ALinkIsReplacedNotWrittenThrough) {
  leave("victim", 0644);
  for (const char* name : {"ended.json", "history.kept", "history.kept.tmp"})
    fs::create_symlink(path("victim"), path(name));
  ASSERT_TRUE(run().write("ended.json", "{}"));
  ASSERT_TRUE(run().replace("history.kept", "7"));
  EXPECT_EQ(read_file(path("victim")), "left");
  EXPECT_EQ(read_file(path("ended.json")), "{}");
  EXPECT_EQ(read_file(path("history.kept")), "7");
  for (const char* name : {"ended.json", "history.kept"}) EXPECT_EQ(mode_of(name), 0600u);
}

TEST(WhatTheSupervisorLeft, IsReadOrRefused) {
  const auto end =
      parse_ended(R"({"signal": 9, "out_of_memory": true, "trainer_pid": -1, "left_over": [7, )"
                  R"({"pid": -1, "start_ticks": 2}, {"pid": 3}, {"pid": 3, "start_ticks": 4}]})");
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->out_of_memory);
  EXPECT_EQ(end->trainer_pid, 0);
  EXPECT_EQ(end->left_over, std::vector<LeftOver>({{3, 4}}));
  EXPECT_FALSE(parse_ended(R"({"exit_code": 255})")->out_of_memory);
  for (const char* const bad :
       {"[]", "{}", R"({"signal": 9, "exit_code": 1})", R"({"exit_code": 256})",
        R"({"signal": -1})", R"({"exit_code": "1"})", R"({"exit_code": 1, "left_over": 3})"})
    EXPECT_FALSE(parse_ended(bad)) << bad;
  EXPECT_TRUE(parse_record(R"({"pid": 1, "trainer_pid": 2, "of a later one": 3})"));
  for (const char* const bad :
       {"[]", R"({"pid": 1})", R"({"trainer_pid": 1})", R"({"pid": 0, "trainer_pid": 1})",
        R"({"pid": 1, "trainer_pid": -1})", R"({"pid": 4294967297, "trainer_pid": 1})"})
    EXPECT_FALSE(parse_record(bad)) << bad;
}

}  // namespace
}  // namespace spotter::supervise
