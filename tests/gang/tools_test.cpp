// `spotter gang` on its machine, by itself.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "agent/commands/gang/gang_files.hpp"
#include "agent/commands/gang/gang_launcher.hpp"
#include "agent/gang/record.hpp"
#include "agent/service/service.hpp"
#include "agent/supervise/processes.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;

class GangTools : public ::testing::Test {
 protected:
  GangTools() {
    char name[] = "/tmp/spotter-gang-test-XXXXXX";
    folder_ = ::mkdtemp(name);
    ::setenv("TMPDIR", folder_.c_str(), 1);
  }
  ~GangTools() override {
    ::unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }
  std::string folder_;
};

TEST_F(GangTools, TheNewestStepIsThatOfACheckpointAlone) {
  EXPECT_EQ(newest_step(folder_), -1);
  for (const char* name :
       {"run-20261126061601123", "events.1732600000", "step-1x", "step-", "9",
        "torn-step-000000000900", ".tmp-step-000000000800", "checkpoint-99999999999999999999",
        "checkpoint-20261126061601123", "step--5", ".writer"})
    fs::create_directory(fs::path(folder_) / name);
  EXPECT_EQ(newest_step(folder_), -1);
  fs::create_directory(fs::path(folder_) / "step-000000000012");
  EXPECT_EQ(newest_step(folder_), 12);
  fs::create_directory(fs::path(folder_) / "checkpoint-34");
  EXPECT_EQ(newest_step(folder_), 34);
  fs::create_directory(fs::path(folder_) / "checkpoint-281474976710656");
  EXPECT_EQ(newest_step(folder_), gang::most_steps);
}

TEST_F(GangTools, ANoticeThatCouldNotBeWrittenIsWrittenLater) {
  GangNotice notice;
  const fs::path own = fs::path(notice.path()).parent_path();
  fs::remove_all(own);  // as where its file system is full
  testing::internal::CaptureStderr();
  for (int time = 0; time < 3; ++time) notice.say(StopBy{});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("cannot write"), said.rfind("cannot write")) << "once";
  EXPECT_NE(said.find("cannot write"), said.npos);
  fs::create_directory(own);
  notice.say(StopBy{});
  EXPECT_TRUE(read_notice(notice.path()));
}

TEST_F(GangTools, ANoticeThatCouldNotBeRemovedIsRemovedLater) {
  GangNotice notice;
  notice.say(StopBy{});
  fs::remove(notice.path());
  fs::create_directory(notice.path());  // unlink() fails
  testing::internal::CaptureStderr();
  for (int time = 0; time < 3; ++time) notice.say(std::nullopt);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("cannot remove"), said.rfind("cannot remove")) << "once";
  EXPECT_NE(said.find("cannot remove"), said.npos);
  fs::remove(notice.path());
  std::ofstream(notice.path()) << "{}";
  notice.say(std::nullopt);
  EXPECT_FALSE(fs::exists(notice.path()));
}

// A cleaner of /tmp, or a logout, took the folder away, and another user of the machine put a link
// to a folder of ours in its place.
TEST_F(GangTools, ALinkInThePlaceOfALostFolderCostsNoFiles) {
  const fs::path precious = fs::path(folder_) / "precious";
  fs::create_directory(precious);
  std::ofstream(precious / "thesis") << "of three years";
  std::ofstream(precious / "newest") << "120 3";
  for (const bool named : {false, true}) {
    const std::string name = folder_ + "/spotter-gang-job-m";
    std::string path;
    {
      const auto folder = named ? std::make_unique<GangFolder>(GangFolder::Named{name})
                                : std::make_unique<GangFolder>("gang");
      path = folder->path();
      ASSERT_NE(path, "");
      fs::remove_all(path);
      fs::create_directory_symlink(precious, path);
      EXPECT_EQ(newest_copy(path).machines, 0U);
      forget_newest_copy(path);
      folder->clear();
    }
    EXPECT_TRUE(fs::exists(precious / "thesis") && fs::exists(precious / "newest"));
    fs::remove(path);
  }
}

TEST_F(GangTools, AnotherUsersFolderIsNoneOfOurs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's folder";
  const std::string theirs = folder_ + "/spotter-gang-job-m";
  fs::create_directory(theirs);
  std::ofstream(theirs + "/newest") << "120 3";
  ASSERT_EQ(::chown(theirs.c_str(), 65534, 65534), 0);
  EXPECT_EQ(GangFolder(GangFolder::Named{theirs}).path(), "");
  EXPECT_EQ(newest_copy(theirs).machines, 0U);
  ASSERT_EQ(::chown(theirs.c_str(), 0, 0), 0);
  EXPECT_EQ(newest_copy(theirs).machines, 3U);
  ASSERT_EQ(::chmod(theirs.c_str(), 0777), 0);
  EXPECT_EQ(newest_copy(theirs).machines, 0U) << "others may write to it";
  EXPECT_EQ(GangFolder(GangFolder::Named{theirs}).path(), "");
}

TEST_F(GangTools, TheEndOfARanksStacksIsRead) {
  GangRanks ranks;
  std::ofstream(ranks.folder() + "/0.step") << ::getpid() << " 7";
  {
    std::ofstream stack(ranks.folder() + "/0.stack");
    stack << std::string(100'000, 'x') << "the last";
  }
  const auto seen = ranks.look();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(seen[0].stack.ends_with("the last"));
  EXPECT_LT(seen[0].stack.size(), 100'000U);
}

TEST_F(GangTools, TheNewestCopyIsWhatTheRanksHaveWrittenDown) {
  const auto of = [&](const std::string& text) {
    std::ofstream(folder_ + "/newest") << text;
    const GangCopy copy = newest_copy(folder_);
    return std::pair(copy.step, copy.machines);
  };
  const std::pair<std::int64_t, std::uint64_t> none{-1, 0};
  EXPECT_EQ(newest_copy("").machines, 0U);
  EXPECT_EQ(newest_copy(folder_).machines, 0U);
  EXPECT_EQ(of("120 3"), (std::pair<std::int64_t, std::uint64_t>{120, 3}));
  for (const char* text : {"", "120", "120 ", "-1 3", "x 3", "120 3 4", "120 -3", "120 257",
                           "99999999999999999 3", "99999999999999999999 3"})
    EXPECT_EQ(of(text), none) << text;
  of("120 3");
  forget_newest_copy(folder_);
  EXPECT_EQ(newest_copy(folder_).machines, 0U);
}

// The core takes a trainer that ran for long for one that gets on.
TEST(AGangsAgent, LeavesItToTheRecordWhetherATrainerGetsOn) {
  config::Job job;
  const Duration alone = policy_of(job, false).settled;
  job.gang.emplace();
  EXPECT_LT(alone, std::chrono::hours(24));
  EXPECT_GT(policy_of(job, false).settled, std::chrono::hours(24 * 365));
}

// A shell that starts torchrun again whenever it is refused never ends by itself.
TEST(ACommandInVain, IsEndedOnceItHasGoneOnForLong) {
  GangPatience patience(Duration(60'000));
  Time now{Duration(5'000)};
  EXPECT_FALSE(patience.is_over(now, true));
  EXPECT_FALSE(patience.is_over(now += Duration(59'999), true));
  EXPECT_FALSE(patience.is_over(now += Duration(1), false)) << "a round may have it again";
  EXPECT_FALSE(patience.is_over(now, true));
  EXPECT_FALSE(patience.is_over(now + Duration(59'999), true));
  EXPECT_TRUE(patience.is_over(now += Duration(60'000), true));
  EXPECT_FALSE(patience.is_over(now + Duration(50), true)) << "it takes a moment to end";
  EXPECT_TRUE(patience.is_over(now + Duration(60'000), true)) << "and may fork meanwhile";
}

class ALauncher : public GangTools {
 protected:
  ALauncher() { ::unsetenv("LOCAL_RANK"); }
  ~ALauncher() override {
    launcher_->kill();
    while (launcher_->runs()) context_.run_one();
  }
  void start(std::string shell) {
    launcher_.emplace(context_, std::vector<std::string>{"/bin/sh", "-c", std::move(shell)},
                      [](int) {});
    ASSERT_TRUE(launcher_->start({}));
  }
  pid_t written(const std::string& name) const {
    const std::string file = folder_ + "/" + name;
    for (int turn = 0; turn < 500; ++turn) {
      pid_t pid = 0;
      if (std::ifstream(file) >> pid && pid > 0) return pid;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << name;
    return 0;
  }
  // Once it has lost its parent.
  static bool is_own(pid_t pid) {
    for (int turn = 0; turn < 500; ++turn) {
      const auto found = supervise::find_process(pid);
      if (!found || found->parent == ::getpid()) return found.has_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  bool is_gone(pid_t pid) {
    for (int turn = 0; turn < 500; ++turn) {
      launcher_->reap();
      if (::kill(pid, 0) != 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  asio::io_context context_;
  std::optional<GangLauncher> launcher_;
};

TEST_F(ALauncher, ReapsWhatHasLostItsParent) {
  start("(sh -c 'echo $$ > " + folder_ + "/orphan; exec sleep 1000' &); exec sleep 1000");
  const pid_t orphan = written("orphan");
  ASSERT_TRUE(is_own(orphan));
  ::kill(orphan, SIGKILL);
  EXPECT_TRUE(is_gone(orphan));
  EXPECT_TRUE(launcher_->runs());
}

TEST_F(ALauncher, EndsARankThatHasLostItsTorchrunAndNoOther) {
  start("(LOCAL_RANK=0 sh -c 'echo $$ > " + folder_ + "/rank; exec sleep 1000' &)\n" +
        "(sh -c 'echo $$ > " + folder_ + "/daemon; exec sleep 1000' &)\nexec sleep 1000");
  const pid_t rank = written("rank"), daemon = written("daemon");
  ASSERT_TRUE(is_own(rank) && is_own(daemon));
  EXPECT_TRUE(launcher_->end_orphans());
  EXPECT_TRUE(is_gone(rank));
  EXPECT_FALSE(launcher_->end_orphans());
  EXPECT_TRUE(supervise::find_process(daemon));
  EXPECT_TRUE(launcher_->runs());
}

// A rank of the torchrun before this one is ended first, and this one may end meanwhile.
class AHandover : public ALauncher {
 protected:
  void begin() {
    start("(LOCAL_RANK=0 sh -c 'echo $$ > " + folder_ + "/rank; exec sleep 1000' &)\n" +
          "sh -c 'echo $$ > " + folder_ + "/torchrun; exec sleep 1000'; exec sleep 1000");
    rank_ = written("rank");
    torchrun_ = written("torchrun");
    ASSERT_TRUE(is_own(rank_));
    self_.ready(4000, -1);
    ask();
  }
  // The record that S3 has, and what this machine has it say.
  const gang::Record& ask() {
    for (int request = 0; request < 4; ++request) {
      const auto ask = self_.next(now_);
      if (!ask) break;
      if (std::holds_alternative<gang::Write>(*ask)) self_.wrote(now_, "1");
      if (std::holds_alternative<gang::Look>(*ask)) self_.looked(now_, std::nullopt);
    }
    return self_.record();
  }
  const Time now_{Duration(1'000'000)};
  gang::Participant self_{{.job = "home", .id = "m1", .name = "m1", .size = 1, .min = 1}};
  pid_t rank_ = 0, torchrun_ = 0;
};

TEST_F(AHandover, GivesTheRoundOnceNoEarlierRankIsLeft) {
  begin();
  GangHandover handover(*launcher_, self_, torchrun_);
  EXPECT_FALSE(handover.look());
  EXPECT_TRUE(is_gone(rank_));
  const auto place = handover.look();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->round, 1U);
  EXPECT_FALSE(handover.look()) << "once";
  EXPECT_FALSE(handover.is_in_vain());
}

TEST_F(AHandover, ToATorchrunThatHasEndedMeanwhileIsNoRoundInWhichItsWorkersFailed) {
  begin();
  GangHandover handover(*launcher_, self_, torchrun_);
  EXPECT_FALSE(handover.look());
  ::kill(torchrun_, SIGKILL);
  EXPECT_TRUE(is_gone(rank_) && is_gone(torchrun_));
  EXPECT_FALSE(handover.look());
  EXPECT_TRUE(handover.is_in_vain());
  self_.ready(4001, -1);  // the next one asks
  const gang::Record& record = ask();
  EXPECT_EQ(record.round, 2U);
  EXPECT_EQ(record.failures, 0U);
  EXPECT_EQ(record.apart, 1U);
}

}  // namespace
}  // namespace spotter::command
