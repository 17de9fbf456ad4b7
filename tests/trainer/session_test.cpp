// Messages to the agent, and the last checkpoint when time is short or disks fail.
#include "trainer/library/session.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/trainer/scratch.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

class SentToTheAgent : public ::testing::Test {
 protected:
  void SetUp() override {
    ear_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = scratch_.path() / "sock";
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(::bind(ear_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    ::setenv("SPOTTER_NOTICE_FILE", (scratch_.path() / "notice").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("NOTIFY_SOCKET");
    ::unsetenv("SPOTTER_NOTICE_FILE");
    ::unsetenv("SPOTTER_CHECKPOINTS_FASTER");
  }
  std::unique_ptr<Session> open() {
    auto session = Session::open({.directory = directory(), .every = milliseconds(0)});
    EXPECT_TRUE(session) << session.error().message;
    return session ? std::move(*session) : nullptr;
  }
  static Result<Saved> save(Session& session, std::uint64_t step, const std::string& model = "m") {
    const std::vector<Source> sources = {{"model", {model}}};
    return session.save(step, sources);
  }
  // The steps that the agent got are durable.
  std::vector<std::string> steps_sent() { return sent("X_SPOTTER_CHECKPOINT_STEP="); }
  std::vector<std::string> sent(std::string_view key) {
    std::vector<std::string> steps;
    char text[4096];
    ssize_t size = 0;
    while ((size = ::recv(ear_.get(), text, sizeof text, 0)) > 0) {
      const std::string_view all(text, static_cast<std::size_t>(size));
      const auto at = all.find(key);
      if (at == std::string_view::npos) continue;
      const auto begin = at + key.size();
      steps.emplace_back(all.substr(begin, all.find('\n', begin) - begin));
    }
    return steps;
  }
  void notice(milliseconds left) {
    const auto gone = std::to_string(duration_cast<milliseconds>(boot_now() + left).count());
    test::write_file(scratch_.path() / "notice",
                     R"({"action": "terminate", "stop_by_boottime_ms": )" + gone + "}");
  }
  void break_disk() {
    fs::rename(directory(), scratch_.path() / "away");
    test::write_file(directory(), "in the way");
  }
  void mend_disk() {
    fs::remove(directory());
    fs::rename(scratch_.path() / "away", directory());
  }
  // A checkpoint is accepted, and its write fails.
  void lose(Session& session, std::uint64_t step) {
    break_disk();
    ASSERT_TRUE(save(session, step));
    std::this_thread::sleep_for(milliseconds(300));  // too short: then it is not lost
    mend_disk();
  }
  fs::path directory() const { return scratch_.path() / "c"; }

  test::Scratch scratch_;
  Descriptor ear_;
};

using Steps = std::vector<std::string>;

TEST_F(SentToTheAgent, WhatIsSaidOnLeavingIsDurableAndNotWhatWasOnlyAccepted) {
  ASSERT_TRUE(save(*open(), 1));
  steps_sent();
  auto session = open();
  ASSERT_EQ(session->restore()->newest->checkpoint.step, 1U);
  break_disk();
  ASSERT_TRUE(save(*session, 2));
  EXPECT_FALSE(session->leave());
  EXPECT_EQ(steps_sent(), (Steps{"1"}));
  mend_disk();
}

TEST_F(SentToTheAgent, AnOlderFailureDoesNotKeepTheLastCheckpointFromBeingMade) {
  auto session = open();
  ASSERT_TRUE(save(*session, 1));
  ASSERT_TRUE(session->flush());
  lose(*session, 2);
  notice(seconds(60));
  ASSERT_TRUE(session->should_checkpoint());
  const auto saved = save(*session, 3);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_TRUE(session->leave());
  EXPECT_EQ(steps_sent().back(), "3");
}

// The time to turn the state into bytes is part of what a checkpoint costs.
TEST_F(SentToTheAgent, TheTrainingStandsStillFromWhereTheStateIsMadeIntoBytes) {
  auto session = open();
  session->begin_save();
  std::this_thread::sleep_for(milliseconds(50));
  ASSERT_TRUE(save(*session, 1));
  ASSERT_TRUE(session->flush());
  notice(seconds(60));
  while (!session->should_checkpoint()) std::this_thread::sleep_for(milliseconds(10));
  std::this_thread::sleep_for(milliseconds(50));
  ASSERT_TRUE(save(*session, 2));
  ASSERT_TRUE(session->flush());
  const auto stalls = sent("X_SPOTTER_CHECKPOINT_SECONDS=");
  ASSERT_EQ(stalls.size(), 2U);
  for (const auto& stall : stalls) EXPECT_GE(std::stod(stall), 0.05) << "slept";
}

// The newest is on the machine's own disk only, as the volume took it not: it is gone on from, but
// not called durable.
TEST_F(SentToTheAgent, TheNewestOfAnyPlaceIsGoneOnFromAndMadeDurableWhereItCounts) {
  const auto fast = scratch_.path() / "fast";
  ::setenv("SPOTTER_CHECKPOINTS_FASTER", fast.c_str(), 1);
  {
    auto session = open();
    ASSERT_TRUE(save(*session, 1));
    ASSERT_TRUE(session->flush());
    lose(*session, 2);
  }
  steps_sent();
  auto session = open();
  const auto restored = session->restore();
  EXPECT_EQ(restored->newest->checkpoint.path, fast / directory_name(2));
  notice(seconds(60));
  ASSERT_TRUE(session->should_checkpoint());
  EXPECT_EQ(steps_sent(), Steps{});
  ASSERT_TRUE(save(*session, 2));
  EXPECT_TRUE(session->leave());
  EXPECT_EQ(steps_sent(), (Steps{"2"}));
  session.reset();
  ::unsetenv("SPOTTER_CHECKPOINTS_FASTER");
  std::filesystem::remove_all(fast);
  EXPECT_EQ(open()->restore()->newest->checkpoint.step, 2U);
}

TEST_F(SentToTheAgent, TheSameStepIsSavedAgainWhereItsFirstCopyWasLost) {
  auto session = open();
  lose(*session, 1);
  notice(seconds(60));
  ASSERT_TRUE(session->should_checkpoint());
  ASSERT_TRUE(save(*session, 1));
  EXPECT_TRUE(session->leave());
  EXPECT_EQ(steps_sent(), (Steps{"1"}));
}

TEST_F(SentToTheAgent, ACopyThatWaitsIsNotGivenUpForOneThatComesTooLate) {
  auto session = open();
  const std::string large(100 << 20, 'm');  // the third waits until the second is written
  ASSERT_TRUE(save(*session, 1, large));
  ASSERT_TRUE(session->flush());
  for (const char step : {2, 3}) {
    ASSERT_TRUE(save(*session, static_cast<std::uint64_t>(step), std::string(large.size(), step)));
  }
  notice(milliseconds(1));
  session->should_checkpoint();
  EXPECT_EQ(save(*session, 4, large), Saved::Skipped);
  EXPECT_TRUE(session->leave());
  EXPECT_EQ(steps_sent(), (Steps{"1", "2", "3"}));
}

// A program whose checkpoints are folders in a format of its own.
class OwnFormat : public SentToTheAgent {
 protected:
  fs::path folder(std::uint64_t step) {
    const fs::path made = directory() / ("checkpoint-" + std::to_string(step));
    fs::create_directories(made / "deep");
    test::write_file(made / "model", "weights");
    test::write_file(made / "deep/shard", "more");
    fs::create_symlink("nowhere", made / "latest");  // not followed
    return made;
  }
};

TEST_F(OwnFormat, ReportsWhereItResumesAndWhatIsDurable) {
  auto session = open();
  session->resumed(7);
  EXPECT_EQ(sent("X_SPOTTER_RESUMED_STEP="), Steps{"7"});
  session->begin_save();
  std::this_thread::sleep_for(milliseconds(30));
  ASSERT_TRUE(session->saved(8, folder(8)));
  EXPECT_EQ(sent("X_SPOTTER_CHECKPOINT_BYTES="), Steps{"11"});
  EXPECT_EQ(session->durable_step(), 8U);
  ASSERT_TRUE(session->saved(8, directory() / "checkpoint-8"));
  EXPECT_EQ(steps_sent(), Steps{}) << "it was reported";
  session->begin_save();
  ASSERT_TRUE(session->saved(9, folder(9)));
  EXPECT_EQ(steps_sent(), Steps{"9"});
}

TEST_F(OwnFormat, WhatIsNotThereIsNotReported) {
  auto session = open();
  const auto saved = session->saved(8, directory() / "checkpoint-8");
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("checkpoint-8"), std::string::npos);
  EXPECT_EQ(steps_sent(), Steps{});
  EXPECT_FALSE(session->durable_step());
}

TEST_F(OwnFormat, OfAMachineThatAnotherOneHasFollowedIsNotReported) {
  ::setenv("SPOTTER_GANG_MEMBER", "m1", 1);
  auto session = open();
  ::unsetenv("SPOTTER_GANG_MEMBER");
  ASSERT_TRUE(replace_file(directory() / ".writer-of-gang", "m2 17-4\n"));
  const auto saved = session->saved(8, folder(8));
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("(m2)"), std::string::npos) << saved.error().message;
  EXPECT_EQ(steps_sent(), Steps{});
}

TEST_F(OwnFormat, AfterANoticeOneIsMadeAtOnceAndOneBeforeTheEnd) {
  auto session = open();
  notice(milliseconds(2'500));
  ASSERT_TRUE(session->should_checkpoint());
  ASSERT_TRUE(session->can_save());
  ASSERT_TRUE(session->saved(1, folder(1)));
  EXPECT_FALSE(session->should_checkpoint());
  EXPECT_FALSE(session->should_stop());
  while (!session->should_checkpoint()) std::this_thread::sleep_for(milliseconds(10));
  ASSERT_TRUE(session->can_save());
  ASSERT_TRUE(session->saved(2, folder(2)));
  EXPECT_TRUE(session->should_stop());
  EXPECT_EQ(steps_sent(), (Steps{"1", "2"}));
}

TEST_F(OwnFormat, WhatWouldNotBeDurableInTimeIsNotBegun) {
  auto session = open();
  session->begin_save();
  std::this_thread::sleep_for(milliseconds(1'500));  // so long a save takes
  ASSERT_TRUE(session->saved(1, folder(1)));
  notice(milliseconds(1'200));
  ASSERT_TRUE(session->should_checkpoint());
  EXPECT_FALSE(session->can_save());
  EXPECT_TRUE(session->should_stop());
  EXPECT_TRUE(session->leave());
}

}  // namespace
}  // namespace spotter::checkpoint
