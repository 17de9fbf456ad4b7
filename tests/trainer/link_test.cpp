// The agent's messages from a trainer, and what the trainer reads from the agent.
#include "trainer/library/link.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/trainer/scratch.hpp"

namespace spotter::checkpoint {
namespace {

// The agent's end of the link.
class Ear {
 public:
  explicit Ear(const std::filesystem::path& path)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const auto* name = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_.get(), name, sizeof address), 0);
  }
  // The next datagram; "" when none is waiting (they arrive at once on this machine).
  std::string next() {
    char buffer[4096];
    const ssize_t size = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    return size < 0 ? "" : std::string(buffer, static_cast<std::size_t>(size));
  }

 private:
  Descriptor socket_;
};

TEST(TrainerLink, TellsOfADurableCheckpointByItsAbsolutePath) {
  const test::Scratch scratch;
  Ear ear(scratch.path() / "sock");
  Link link((scratch.path() / "sock").string(), {});
  link.resumed(12);
  link.checkpointed("/mnt/x/../checkpoints/step-000000000034", 34);
  link.status("two\nlines");
  link.finished();
  EXPECT_EQ(ear.next(), "X_SPOTTER_RESUMED_STEP=12\n");
  EXPECT_EQ(
      ear.next(),
      "X_SPOTTER_CHECKPOINT=/mnt/checkpoints/step-000000000034\nX_SPOTTER_CHECKPOINT_STEP=34\n");
  EXPECT_EQ(ear.next(), "STATUS=two lines\n");
  EXPECT_EQ(ear.next(), "X_SPOTTER_FINISHED=1\n");
}

TEST(TrainerLink, ProgressIsSentSparinglyButTheLastStepAlways) {
  const test::Scratch scratch;
  Ear ear(scratch.path() / "sock");
  Link link((scratch.path() / "sock").string(), {});
  const auto before = boot_now();
  for (std::uint64_t step = 1; step <= 100; ++step) link.progress({step, 100, 1, 1, 0.5, 0.25});
  const auto most = (boot_now() - before) / std::chrono::milliseconds(100) + 2;
  EXPECT_EQ(ear.next(),
            "WATCHDOG=1\nX_SPOTTER_STEP=1\nX_SPOTTER_STEPS_TOTAL=100\nX_SPOTTER_EPOCH=1\n"
            "X_SPOTTER_EPOCHS_TOTAL=1\nX_SPOTTER_LOSS=0.5\nX_SPOTTER_ACCURACY=0.25\n");
  std::string last;
  std::int64_t count = 1;
  for (std::string more = ear.next(); !more.empty(); more = ear.next(), ++count) last = more;
  EXPECT_LE(count, most);
  EXPECT_NE(last.find("X_SPOTTER_STEP=100\n"), std::string::npos);
}

TEST(TrainerLink, AnEvaluationIsSentHoweverSoonAndNoneIsLost) {
  const test::Scratch scratch;
  Ear ear(scratch.path() / "sock");
  Link link((scratch.path() / "sock").string(), {});
  link.progress({.step = 5});
  link.progress({.step = 5, .metrics = {{"val_loss", 0.25}, {"val_accuracy", 0.5}}});
  EXPECT_EQ(ear.next(), "WATCHDOG=1\nX_SPOTTER_STEP=5\n");
  EXPECT_EQ(ear.next(),
            "WATCHDOG=1\nX_SPOTTER_STEP=5\nX_SPOTTER_METRIC=val_accuracy 0.5\n"
            "X_SPOTTER_METRIC=val_loss 0.25\n");
  link.progress({.step = 6, .metrics = {{"val_loss", 0.125}, {"loss", 1}, {"a b", 1}}});
  link.progress({.step = 7, .metrics = {{"val_loss", std::nan("")}}});
  link.send_waiting();
  EXPECT_EQ(ear.next(), "WATCHDOG=1\nX_SPOTTER_STEP=7\nX_SPOTTER_METRIC=val_loss 0.125\n");
  link.send_waiting();
  EXPECT_EQ(ear.next(), "");
}

TEST(TrainerLink, AnEvaluationThatTheAgentsFullQueueRefusesIsSentLater) {
  const test::Scratch scratch;
  Ear ear(scratch.path() / "sock");
  Link link((scratch.path() / "sock").string(), {});
  for (int i = 0; i < 10'000; ++i) link.ready();
  link.progress({.step = 5, .metrics = {{"val_loss", 0.25}}});
  for (std::string next = ear.next(); !next.empty(); next = ear.next())
    EXPECT_EQ(next, "READY=1\n");
  link.send_waiting();
  EXPECT_EQ(ear.next(), "WATCHDOG=1\nX_SPOTTER_STEP=5\nX_SPOTTER_METRIC=val_loss 0.25\n");
}

TEST(TrainerLink, NobodyListeningIsNoTrouble) {
  const test::Scratch scratch;
  for (const std::string& address : {std::string(), (scratch.path() / "absent").string(),
                                     std::string(500, 'x'), std::string("@nobody")}) {
    Link link(address, {});
    link.ready();
    link.finished();
    EXPECT_FALSE(link.notice());
  }
}

TEST(TrainerLink, ReportsThatItFinishedWhenTheQueueHasRoomAgain) {
  const test::Scratch scratch;
  Ear ear(scratch.path() / "sock");
  Link link((scratch.path() / "sock").string(), {});
  for (int i = 0; i < 10'000; ++i) link.ready();
  std::string last;
  std::thread reader([&] {
    while (last != "X_SPOTTER_FINISHED=1\n")
      if (std::string next = ear.next(); !next.empty()) last = next;
  });
  link.finished();
  reader.join();
  EXPECT_EQ(last, "X_SPOTTER_FINISHED=1\n");
}

TEST(TrainerLink, AFullQueueDoesNotBlock) {
  const test::Scratch scratch;
  Ear ear(scratch.path() / "sock");
  Link link((scratch.path() / "sock").string(), {});
  for (int i = 0; i < 10'000; ++i) link.ready();
  EXPECT_EQ(ear.next(), "READY=1\n");
}

TEST(TrainerLink, TheNoticeHasADeadline) {
  const test::Scratch scratch;
  const auto file = scratch.path() / "notice";
  const Link link("", file);
  EXPECT_FALSE(link.notice());
  test::write_file(
      file, R"({"action":"stop","deadline_boottime_ms":123456,"at":"2026-01-01T00:00:00Z"})");
  const auto notice = link.notice();
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->action, "stop");
  EXPECT_EQ(notice->deadline, std::chrono::milliseconds(123456));
  test::write_file(file, "{half");
  EXPECT_FALSE(link.notice());
  std::filesystem::remove(file);
  EXPECT_FALSE(link.notice());
}

// A save in the very millisecond of the request may have been before it.
TEST(TrainerLink, ARequestIsForAMomentAfterItsMillisecond) {
  const test::Scratch scratch;
  const auto file = scratch.path() / "pace";
  const Link link("", {}, file);
  EXPECT_FALSE(link.advice().wanted);
  test::write_file(file, R"({"asked_boottime_ms":123456})");
  EXPECT_GT(link.advice().wanted, std::chrono::nanoseconds(123'456'999'999));
  EXPECT_FALSE(link.advice().every) << "the user's own word has precedence";
}

TEST(TrainerLink, AStopSignalOnlySetsAFlag) {
  catch_stop_signals();
  EXPECT_FALSE(stop_requested());
  std::raise(SIGUSR1);
  EXPECT_EQ(stop_requested(), SIGUSR1);
}

}  // namespace
}  // namespace spotter::checkpoint
