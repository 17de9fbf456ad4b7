// A program that lives beside the trainer.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/supervise/sidecar.hpp"
#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

class Beside : public Stage {
 protected:
  // A sidecar that writes down what it is sent.
  Spec with_sidecar(const std::string& command, const std::string& sidecar) const {
    std::ofstream(path("companion")) << "#!/bin/sh\ncd " << directory() << "\n" << sidecar;
    std::filesystem::permissions(path("companion"), std::filesystem::perms(0755));
    Spec result = spec(command);
    result.sidecar = {path("companion"), "word"};
    return result;
  }
  std::string sent() const { return read_file(path("sent")); }
  static constexpr const char* listens =
      "echo $$ > pid; echo \"$@\" >> arguments; echo ready\n"
      "read line && echo $line > sent\n";
};

TEST_F(Beside, IsReadyBeforeTheTrainerStartsAndIsSentItsEnd) {
  started(with_sidecar("cat arguments; exit 0", listens));
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_EQ(log(), "word\n");
  EXPECT_EQ(sent(), "finished\n");
}

TEST_F(Beside, ItsProcessIsKnownFromItsFirstWordToItsLast) {
  const auto trainer =
      started(with_sidecar("echo up; while [ ! -e enough ]; do sleep 0.01; done", listens));
  ASSERT_TRUE(says("up"));
  const int first = std::stoi(read_file(path("pid")));
  EXPECT_TRUE(is_sidecar(directory(), first));
  EXPECT_FALSE(is_sidecar(directory(), trainer.trainer_pid));
  EXPECT_FALSE(is_sidecar(directory(), trainer.supervisor_pid));
  ::kill(first, SIGKILL);
  ASSERT_TRUE(eventually([&] { return read_file(path("arguments")) == "word\nword --again\n"; }));
  const int second = std::stoi(read_file(path("pid")));
  EXPECT_TRUE(is_sidecar(directory(), second));
  EXPECT_FALSE(is_sidecar(directory(), first));
  std::ofstream(path("enough")) << "x";
  wait_for_end();
  EXPECT_TRUE(is_sidecar(directory(), second)) << "what it said last may not have been read yet";
  std::ofstream(path("companion.pid")) << getpid() << " 1\n";
  EXPECT_FALSE(is_sidecar(directory(), getpid())) << "its number was given away again";
}

TEST_F(Beside, ATrainerThatStoppedAsAskedHasStopped) {
  started(with_sidecar("exit 75", listens));
  wait_for_end();
  EXPECT_EQ(sent(), "stopped\n");
}

// The sidecar's last word is kept with the end: the start failed for the checkpoint, perhaps.
TEST_F(Beside, OneThatFailsByItselfMayHaveFailedForItsCheckpoint) {
  started(with_sidecar("exit 3", "echo ready; read line; echo $line > sent; echo doubted"));
  EXPECT_TRUE(wait_for_end().checkpoint_doubted);
  EXPECT_EQ(sent(), "failed\n");
}

TEST_F(Beside, OneThatWasAskedToStopDidNotFailByItself) {
  started(with_sidecar("echo up; while [ ! -e enough ]; do sleep 0.01; done; exit 3", listens));
  ASSERT_TRUE(says("up"));
  std::ofstream(path("notice")) << "{}";
  std::ofstream(path("enough")) << "x";
  EXPECT_FALSE(wait_for_end().checkpoint_doubted);
  EXPECT_EQ(sent(), "killed\n");
}

TEST_F(Beside, AnyOtherEndIsAKill) {
  started(with_sidecar("kill -KILL $$", listens));
  EXPECT_EQ(wait_for_end().signal, SIGKILL);
  EXPECT_EQ(sent(), "killed\n");
}

TEST_F(Beside, TheKillOfTheTrainersTreeSparesIt) {
  started(with_sidecar("sleep 1000 & echo up; sleep 1000", listens));
  ASSERT_TRUE(says("up"));
  ASSERT_TRUE(kill(directory()));
  EXPECT_EQ(wait_for_end().signal, SIGKILL);
  EXPECT_EQ(sent(), "killed\n") << "it still ran then";
}

TEST_F(Beside, ASecondKillEndsItToo) {
  started(with_sidecar("echo up; sleep 1000", "echo ready; read line; echo > busy; sleep 1000"));
  ASSERT_TRUE(says("up"));
  ASSERT_TRUE(kill(directory()));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path("busy")); }));
  EXPECT_TRUE(look(directory()).value().running() != nullptr) << "it is waited for";
  ASSERT_TRUE(kill(directory()));
  EXPECT_EQ(wait_for_end().signal, SIGKILL);
}

TEST_F(Beside, WithoutItTheTrainerDoesNotStart) {
  const auto result =
      start(directory(), with_sidecar("echo up", "echo 'cannot watch the folder'; exit 1"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "cannot watch the folder");
  EXPECT_EQ(log(), "");
  EXPECT_TRUE(nothing_there());
}

TEST_F(Beside, ItIsStartedAgainWhenItDies) {
  started(with_sidecar("echo up; while [ ! -e enough ]; do sleep 0.01; done", listens));
  ASSERT_TRUE(says("up"));
  const int first = std::stoi(read_file(path("pid")));
  ::kill(first, SIGKILL);
  ASSERT_TRUE(eventually([&] { return read_file(path("arguments")) == "word\nword --again\n"; }));
  std::ofstream(path("enough")) << "x";
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_EQ(sent(), "finished\n");
}

TEST_F(Beside, OneThatSaysNothingIsNotWaitedForForEver) {
  // Children of an earlier test's trainer are inherited, and may be ending still.
  ASSERT_TRUE(eventually([] { return ::waitpid(-1, nullptr, WNOHANG) == -1; }));
  Sidecar sidecar({"/bin/sleep", "1000"});
  const auto begun = sidecar.start(std::chrono::milliseconds(50));
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().message, "/bin/sleep does not get ready");
  EXPECT_FALSE(sidecar.runs());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "and is gone";
}

TEST_F(Beside, WhyItCannotBeStartedAgainIsInTheLog) {
  started(with_sidecar(
      "echo up; while [ ! -e enough ]; do sleep 0.01; done",
      "[ \"$2\" = --again ] && { echo 'no watches left'; exit 1; }\n" + std::string(listens)));
  ASSERT_TRUE(says("up"));
  ::kill(std::stoi(read_file(path("pid"))), SIGKILL);
  EXPECT_TRUE(eventually([&] { return log().find("is not restarted") != std::string::npos; }));
  EXPECT_NE(log().find("spotter: no watches left\n"), std::string::npos) << log();
  std::ofstream(path("enough")) << "x";
  EXPECT_EQ(wait_for_end().exit_code, 0);
}

TEST_F(Beside, ItDiesWithTheSupervisor) {
  const auto trainer = started(with_sidecar("echo up; sleep 1000", listens));
  ASSERT_TRUE(says("up"));
  const int sidecar = std::stoi(read_file(path("pid")));
  ::kill(trainer.supervisor_pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !runs(sidecar); }));
}

}  // namespace
}  // namespace spotter::supervise
