// Signals reach whom they are meant for.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

class Signals : public Stage {
 protected:
  // A program that writes a checkpoint when asked to stop, as a trainer does.
  std::string aware() {
    std::ofstream(path("aware")) << "import os, signal, sys, time\n"
                                    "def stop(*_):\n"
                                    "  os.write(1, b'checkpoint\\n'); os._exit(75)\n"
                                    "signal.signal(getattr(signal, sys.argv[1]), stop)\n"
                                    "print('training', flush=True)\n"
                                    "while True: time.sleep(1)\n";
    return "/usr/bin/python3 " + path("aware");
  }
};

TEST_F(Signals, ReachTheTrainer) {
  started(spec("exec " + aware() + " SIGTERM"));
  ASSERT_TRUE(says("training"));
  ASSERT_TRUE(send_signal(directory(), SIGTERM));
  EXPECT_EQ(wait_for_end().exit_code, 75);
}

TEST_F(Signals, PassThroughShellsThatWouldDieOfThem) {
  std::ofstream(path("train.sh")) << "#!/bin/bash\necho begin\n"
                                  << aware() << " SIGTERM\nexit $?\n";
  std::filesystem::permissions(path("train.sh"), std::filesystem::perms(0755));
  started(spec("cd . && ./train.sh; exit $?"));
  ASSERT_TRUE(says("training"));
  ASSERT_TRUE(send_signal(directory(), SIGTERM));
  EXPECT_EQ(wait_for_end().exit_code, 75) << log();
}

TEST_F(Signals, PassThroughAPipelineIntoTee) {
  auto piped = spec("set -o pipefail; " + aware() + " SIGTERM | tee copy; exit $?");
  piped.shell = "/bin/bash";
  started(piped);
  ASSERT_TRUE(says("training"));
  ASSERT_TRUE(send_signal(directory(), SIGTERM));
  EXPECT_EQ(wait_for_end().exit_code, 75) << log();
  EXPECT_EQ(read_file(path("copy")), "training\ncheckpoint\n");
}

TEST_F(Signals, InterruptsReachTheProgramBelowAShell) {
  auto scripted = spec(aware() + " SIGINT; exit $?");
  scripted.shell = "/bin/bash";
  started(scripted);
  ASSERT_TRUE(says("training"));
  ASSERT_TRUE(send_signal(directory(), SIGINT));
  EXPECT_EQ(wait_for_end().exit_code, 75) << log();
}

TEST_F(Signals, AreLeftToAShellThatTrapsThem) {
  started(spec("trap 'echo trapped; exit 4' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(says("ready"));
  ASSERT_TRUE(send_signal(directory(), SIGTERM));
  EXPECT_EQ(wait_for_end().exit_code, 4);
  EXPECT_NE(log().find("trapped"), std::string::npos);
}

TEST_F(Signals, DoNotReachTheDataLoaders) {
  started(
      spec("trap 'kill -0 $loader && echo loader lives; exit 75' USR1;"
           "sleep 1000 & loader=$!; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(says("ready"));
  ASSERT_TRUE(send_signal(directory(), SIGUSR1));
  EXPECT_EQ(wait_for_end().exit_code, 75);
  EXPECT_NE(log().find("loader lives"), std::string::npos);
}

TEST_F(Signals, KillEndsATrainerThatIgnoresAllElse) {
  const auto trainer = started(spec("trap '' TERM INT HUP; echo ready; while :; do sleep 1; done"));
  ASSERT_TRUE(says("ready"));
  ASSERT_TRUE(send_signal(directory(), SIGTERM));
  ASSERT_TRUE(runs(trainer.trainer_pid));
  ASSERT_TRUE(kill(directory()));
  EXPECT_EQ(wait_for_end().signal, SIGKILL);
}

TEST_F(Signals, ToTheSupervisorStopTheTrainerAsItsJobSays) {
  auto stopped = spec("exec " + aware() + " SIGUSR2");
  stopped.stop_signal = SIGUSR2;
  const auto trainer = started(stopped);
  ASSERT_TRUE(says("training"));
  ::kill(trainer.supervisor_pid, SIGTERM);
  EXPECT_EQ(wait_for_end().exit_code, 75);
  EXPECT_NE(stopper(directory()).find("process " + std::to_string(getpid())), std::string::npos)
      << stopper(directory());
}

TEST_F(Signals, ToTheSupervisorEndATrainerThatIsNeverAskedAtOnce) {
  auto never_asked = spec("trap '' TERM INT; echo ready; while :; do sleep 1; done");
  never_asked.stop_signal = 0;
  const auto trainer = started(never_asked);
  ASSERT_TRUE(says("ready"));
  ::kill(trainer.supervisor_pid, SIGTERM);
  const Ended ended = wait_for_end();
  EXPECT_EQ(ended.signal, SIGKILL);
  EXPECT_TRUE(judge(ended, {directory(), {}, false, {}, false, true}).stopped_as_asked);
}

TEST_F(Signals, FailWhereNobodySupervises) {
  EXPECT_FALSE(send_signal(directory(), SIGTERM));
  EXPECT_FALSE(kill(directory()));
  EXPECT_FALSE(kill(path("nowhere")));
}

TEST_F(Signals, FindASocketDeepBelow) {
  std::string deep = directory();
  for (int level = 0; level < 10; ++level) deep += "/a-rather-long-name";
  std::filesystem::create_directories(deep);
  const auto result = start(deep, spec("exec sleep 1000"));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_TRUE(kill(deep));
  EXPECT_TRUE(eventually([&] { return look(deep).value().ended.has_value(); }));
}

}  // namespace
}  // namespace spotter::supervise
