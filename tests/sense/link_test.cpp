// The trainer's datagrams through a real socket.
#include "agent/service/sense/trainer.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <vector>

namespace spotter::sense {
namespace {

class TheLink : public testing::Test {
 protected:
  TheLink() {
    char name[] = "/tmp/spotter-link-XXXXXX";
    directory_ = ::mkdtemp(name);
    path_ = directory_ + "/trainer.sock";
  }
  ~TheLink() override { std::filesystem::remove_all(directory_); }

  Link::Receiver receiver() {
    return {[this](decide::Happening what) { happenings_.push_back(std::move(what)); },
            [this](const wire::TrainerMessage& message) { messages_.push_back(message); },
            true,
            false,
            true,
            [this](pid_t sender) { return sender == guard_; }};
  }
  void send(const std::string& text) {
    const int sender = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(::sendto(sender, text.data(), text.size(), 0,
                       reinterpret_cast<const sockaddr*>(&address), sizeof address),
              static_cast<ssize_t>(text.size()));
    ::close(sender);
  }

  // The same as another process of another user. False: it may not.
  bool send_as(uid_t user, const std::string& text) {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is = ::setgid(user) == 0 && ::setuid(user) == 0;
      const int sender = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
      const auto* to = reinterpret_cast<const sockaddr*>(&address);
      ::_exit(is && ::sendto(sender, text.data(), text.size(), 0, to, sizeof address) >= 0 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0;
  }
  // Counts the words in the journal, among what was printed since CaptureStdout().
  static int said(const std::string& words) {
    const std::string all = testing::internal::GetCapturedStdout();
    int times = 0;
    for (auto at = all.find(words); at != all.npos; at = all.find(words, at + 1)) ++times;
    return times;
  }

  asio::io_context context_;
  pid_t guard_ = ::getpid();
  std::string directory_, path_;
  std::vector<decide::Happening> happenings_;
  std::vector<wire::TrainerMessage> messages_;
};

TEST_F(TheLink, TurnsDatagramsIntoHappeningsInOrder) {
  Link link(context_, receiver());
  ASSERT_FALSE(link.open(path_, "root"));
  send("X_SPOTTER_RESUMED_STEP=5");
  send("X_SPOTTER_STEP=6\nX_SPOTTER_LOSS=0.5\nSTATUS=fine");
  send(
      "X_SPOTTER_CHECKPOINT=/m/checkpoints/step-6\nX_SPOTTER_CHECKPOINT_STEP=6\n"
      "X_SPOTTER_CHECKPOINT_SECONDS=0.25");
  context_.run_for(std::chrono::milliseconds(200));
  ASSERT_EQ(happenings_.size(), 3U);
  EXPECT_EQ(std::get<decide::TrainerResumed>(happenings_[0]).step, 5);
  EXPECT_EQ(std::get<decide::TrainerProgressed>(happenings_[1]).step, 6);
  EXPECT_EQ(std::get<decide::CheckpointMade>(happenings_[2]).step, 6);
  EXPECT_EQ(std::get<decide::CheckpointMade>(happenings_[2]).stall, Duration(250));
  EXPECT_EQ(messages_[1].status, "fine");
}

TEST_F(TheLink, TakesWhatTheGangReports) {
  std::vector<wire::GangReport> gangs;
  auto its = receiver();
  its.gang = [&](const wire::GangReport& gang) { gangs.push_back(gang); };
  Link link(context_, std::move(its));
  ASSERT_FALSE(link.open(path_, "root"));
  const wire::GangReport report{.members = 2, .machines = 2, .round = 3, .leader = "i-1"};
  send(wire::to_line(report));
  send("X_SPOTTER_STEP=6");
  context_.run_for(std::chrono::milliseconds(200));
  EXPECT_EQ(gangs, std::vector<wire::GangReport>{report});
  EXPECT_EQ(happenings_.size(), 1U) << "the core needs none of it";
}

TEST_F(TheLink, TakesNothingOfAGangThatTheJobHasNot) {
  std::size_t reports = 0;
  auto its = receiver();
  its.gang = [&](const wire::GangReport&) { ++reports; };
  its.in_gang = false;
  Link link(context_, std::move(its));
  ASSERT_FALSE(link.open(path_, "root"));
  send(wire::to_line({.members = 2, .machines = 2, .round = 3}));
  send("X_SPOTTER_FINISHED=1");
  link.drain();
  EXPECT_EQ(reports, 0U);
  EXPECT_TRUE(messages_.back().finished);
}

TEST_F(TheLink, LimitsWhatTheGangReports) {
  std::size_t reports = 0;
  auto its = receiver();
  its.gang = [&](const wire::GangReport&) { ++reports; };
  Link link(context_, std::move(its));
  ASSERT_FALSE(link.open(path_, "root"));
  testing::internal::CaptureStdout();
  constexpr std::size_t most = 600, sent = 3000;
  for (std::size_t round = 0; round < sent; ++round) {
    send(wire::to_line({.members = 2, .round = round, .rounds = 1 + round % 2}));
    link.drain();
  }
  EXPECT_GE(reports, most);
  EXPECT_LT(reports, 2 * most);
  EXPECT_EQ(said("600 messages a minute"), 1) << "once";
}

TEST_F(TheLink, SaysThatASocketsPathIsTooLong) {
  Link link(context_, receiver());
  const std::string longest(sizeof sockaddr_un::sun_path - 1 - path_.size(), 'x');
  EXPECT_FALSE(link.open(path_ + longest, "root"));
  Link other(context_, receiver());
  EXPECT_EQ(other.open(path_ + longest + "x", "root"), std::errc::filename_too_long);
}

TEST_F(TheLink, DrainTakesTheLastWordsBeforeTheLoopDoes) {
  Link link(context_, receiver());
  ASSERT_FALSE(link.open(path_, "root"));
  send("X_SPOTTER_FINISHED=1");
  link.drain();
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_TRUE(messages_[0].finished);
}

// Watched files of the trainer are the checkpoints, not what it says of others.
TEST_F(TheLink, TakesCheckpointsFromTheGuardAloneWhereThereIsOne) {
  const std::string made = "X_SPOTTER_CHECKPOINT=/m/a.h5\nX_SPOTTER_CHECKPOINT_STEP=";
  for (const bool guarded : {true, false}) {
    happenings_.clear();
    Link::Receiver taker = receiver();
    taker.of_trainer = !guarded;
    taker.of_guard = guarded;
    Link link(context_, taker);
    ASSERT_FALSE(link.open(path_, "root"));
    send(made + "1000");
    send("X_SPOTTER_GUARD=1\n" + made + "7");
    send("X_SPOTTER_GUARD=1\nX_SPOTTER_NOTE=a.h5 was torn");
    link.drain();
    ASSERT_EQ(happenings_.size(), 1U);
    EXPECT_EQ(std::get<decide::CheckpointMade>(happenings_[0]).step, guarded ? 7 : 1000);
    EXPECT_EQ(messages_.back().note, "a.h5 was torn");
  }
}

TEST_F(TheLink, TakesTheGuardsCheckpointsUntilTheTrainerReportsItsOwn) {
  const std::string made = "X_SPOTTER_CHECKPOINT=/m/a.h5\nX_SPOTTER_CHECKPOINT_STEP=";
  Link::Receiver taker = receiver();
  taker.of_trainer = taker.of_guard = true;
  Link link(context_, taker);
  ASSERT_FALSE(link.open(path_, "root"));
  for (const char* step : {"1", "2"}) send("X_SPOTTER_GUARD=1\n" + made + step);
  send(made + "1000");
  send("X_SPOTTER_GUARD=1\n" + made + "3");
  link.drain();
  ASSERT_EQ(happenings_.size(), 3U);
  EXPECT_EQ(std::get<decide::CheckpointMade>(happenings_[2]).step, 1000);
}

TEST_F(TheLink, BelievesNobodyButTheGuardInItsName) {
  guard_ = 1;
  Link::Receiver taker = receiver();
  taker.of_trainer = false;
  Link link(context_, taker);
  ASSERT_FALSE(link.open(path_, "root"));
  testing::internal::CaptureStdout();
  for (int time = 0; time < 3; ++time) {
    send("X_SPOTTER_GUARD=1\nX_SPOTTER_NOTE=all is well");
    send("X_SPOTTER_GUARD=1\nX_SPOTTER_CHECKPOINT=/m/a.h5\nX_SPOTTER_CHECKPOINT_STEP=7");
    link.drain();
  }
  EXPECT_TRUE(happenings_.empty());
  EXPECT_TRUE(messages_.empty());
  EXPECT_EQ(said("is dropped: it says to be of the guard"), 1) << "once";
  guard_ = ::getpid();
  send("X_SPOTTER_GUARD=1\nX_SPOTTER_NOTE=all is well");
  link.drain();
  ASSERT_EQ(messages_.size(), 1U);
}

TEST_F(TheLink, HearsTheTrainersUserAndRootAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as other users";
  constexpr uid_t nobody = 65534, somebody = 65533;
  std::filesystem::permissions(directory_, std::filesystem::perms(0755));
  Link link(context_, receiver());
  ASSERT_FALSE(link.open(path_, "nobody"));
  EXPECT_FALSE(send_as(somebody, "X_SPOTTER_FINISHED=1")) << "the file system keeps it out";
  std::filesystem::permissions(path_, std::filesystem::perms(0666));
  EXPECT_TRUE(send_as(somebody, "X_SPOTTER_FINISHED=1"));
  link.drain();
  EXPECT_TRUE(messages_.empty()) << "and so do we";
  EXPECT_TRUE(send_as(nobody, "X_SPOTTER_STEP=1"));
  EXPECT_TRUE(send_as(0, "X_SPOTTER_STEP=2"));
  link.drain();
  EXPECT_EQ(messages_.size(), 2U);
}

TEST_F(TheLink, TakesSoManyLinesAMinuteAndEachStep) {
  Link link(context_, receiver());
  ASSERT_FALSE(link.open(path_, "root"));
  testing::internal::CaptureStdout();
  constexpr std::size_t most = 600, sent = 3000;
  for (std::size_t step = 0; step < sent; ++step) {
    send("X_SPOTTER_STEP=5\nX_SPOTTER_CHECKPOINT=/m/a\nX_SPOTTER_CHECKPOINT_STEP=5");
    link.drain();
  }
  std::size_t steps = 0;
  for (const auto& each : happenings_)
    steps += std::holds_alternative<decide::TrainerProgressed>(each) ? 1 : 0;
  EXPECT_EQ(steps, sent);
  EXPECT_GE(happenings_.size() - steps, most);
  EXPECT_LT(happenings_.size() - steps, 2 * most);
  EXPECT_EQ(said("600 messages a minute"), 1) << "once";
  send("X_SPOTTER_GUARD=1\nX_SPOTTER_NOTE=a.h5 was torn");
  link.drain();
  EXPECT_EQ(messages_.back().note, "a.h5 was torn") << "the guard has an allowance of its own";
}

TEST_F(TheLink, DropsNoCheckpointForTheWordsBeforeIt) {
  Link link(context_, receiver());
  ASSERT_FALSE(link.open(path_, "root"));
  for (int line = 0; line < 3000; ++line) {
    send("X_SPOTTER_NOTE=line after line");
    link.drain();
  }
  send("X_SPOTTER_NOTE=saved\nX_SPOTTER_CHECKPOINT=/m/a\nX_SPOTTER_CHECKPOINT_STEP=5");
  link.drain();
  ASSERT_EQ(happenings_.size(), 1U);
  EXPECT_EQ(std::get<decide::CheckpointMade>(happenings_[0]).step, 5);
}

TEST(AnAllowance, GrowsWithTimeUpToAMinutes) {
  Allowance allowance;
  const auto take = [&allowance](std::chrono::steady_clock::time_point at) {
    int taken = 0;
    while (allowance.take(at)) ++taken;
    return taken;
  };
  const std::chrono::steady_clock::time_point begin{};
  EXPECT_EQ(take(begin), 600);
  EXPECT_EQ(take(begin + std::chrono::seconds(1)), 10);
  EXPECT_EQ(take(begin + std::chrono::hours(1)), 600);
}

TEST_F(TheLink, IsForItsUserAloneAndLeavesNoSocket) {
  {
    Link link(context_, receiver());
    ASSERT_FALSE(link.open(path_, "root"));
    struct stat info {};
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TheLink, ASecondAgentTakesOverTheSocketOfADeadOne) {
  { std::filesystem::create_directories(directory_); }
  const int left = ::open(path_.c_str(), O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
  ::close(left);
  Link link(context_, receiver());
  EXPECT_FALSE(link.open(path_, "root"));
}

TEST_F(TheLink, SaysWhyItCannotListen) {
  Link link(context_, receiver());
  EXPECT_TRUE(link.open(directory_ + "/nowhere/trainer.sock", "root"));
}

}  // namespace
}  // namespace spotter::sense
