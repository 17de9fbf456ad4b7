// The trainer's datagrams through a real socket.
#include "agent/sense/link.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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
            [this](const wire::TrainerMessage& message) { messages_.push_back(message); }};
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

  asio::io_context context_;
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

// Where the trainer's files are watched, they are the checkpoints, not what it says of others.
TEST_F(TheLink, TakesCheckpointsFromTheGuardAloneWhereThereIsOne) {
  const std::string made = "X_SPOTTER_CHECKPOINT=/m/a.h5\nX_SPOTTER_CHECKPOINT_STEP=";
  for (const bool guarded : {true, false}) {
    happenings_.clear();
    Link::Receiver taker = receiver();
    taker.guarded = guarded;
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
