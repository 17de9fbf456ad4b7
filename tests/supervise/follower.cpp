// A program that reads the trainer's log, with the trainer's rights and no more.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

class Following : public Stage {
 protected:
  Spec with_follower(const std::string& command, const std::string& follower) const {
    std::ofstream(path("follower")) << "#!/bin/sh\ncd " << directory() << "\n" << follower;
    std::filesystem::permissions(path("follower"), std::filesystem::perms(0755));
    Spec result = spec(command);
    result.follower = {path("follower"), "word"};
    return result;
  }
  std::string written(const std::string& name) const { return read_file(path(name)); }
};

TEST_F(Following, IsThereBeforeTheTrainerAndReadsItsLastRows) {
  started(with_follower("echo row >> rows; cat begun; exit 0",
                        "cat rows > seen; echo \"$@\" > begun; echo ready\n"
                        "read line; cat rows >> seen; echo $line >> seen\n"));
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_EQ(written("begun"), "word\n");
  EXPECT_EQ(written("seen"), "row\nended\n");
}

TEST_F(Following, HasNothingOfTheTrainersEnvironment) {
  auto what = with_follower("exit 0", "env > environment; echo ready; read line\n");
  what.environment["TOKEN"] = "a-secret";
  started(what);
  wait_for_end();
  EXPECT_NE(written("environment"), "");
  EXPECT_EQ(written("environment").find("a-secret"), std::string::npos);
}

TEST_F(Following, FailsWithoutTheTrainersKnowing) {
  started(with_follower("echo up; exit 0", "echo 'no such option' >&2; exit 2\n"));
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_NE(log().find("up\n"), std::string::npos);
  EXPECT_NE(log().find("no such option\n"), std::string::npos);
}

TEST_F(Following, ThatCannotBeStartedIsInTheLog) {
  auto what = with_follower("exit 0", "");
  what.follower = {path("absent")};
  started(what);
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_EQ(log(), "spotter: cannot run " + path("absent") + ": No such file or directory\n");
}

TEST_F(Following, IsStartedAgainWhenItDies) {
  started(with_follower("while [ ! -e enough ]; do sleep 0.01; done",
                        "echo $$ > pid; echo \"$@\" >> arguments; echo ready; read line\n"));
  ASSERT_TRUE(eventually([&] { return written("arguments") == "word\n"; }));
  ::kill(std::stoi(written("pid")), SIGKILL);
  ASSERT_TRUE(eventually([&] { return written("arguments") == "word\nword --again\n"; }));
  std::ofstream(path("enough")) << "x";
  EXPECT_EQ(wait_for_end().exit_code, 0);
}

TEST_F(Following, IsNotWaitedForWhereItDoesNotEnd) {
  started(with_follower("exit 3", "echo $$ > pid; echo ready; trap '' TERM; sleep 1000\n"));
  EXPECT_EQ(wait_for_end().exit_code, 3);
  EXPECT_FALSE(runs(std::stoi(written("pid"))));
}

TEST_F(Following, IsKilledWithTheTrainer) {
  started(with_follower("echo up; sleep 1000",
                        "echo $$ > pid; echo ready; read line; echo $line > ended\n"));
  ASSERT_TRUE(says("up"));
  ASSERT_TRUE(kill(directory()));
  EXPECT_EQ(wait_for_end().signal, SIGKILL);
  EXPECT_FALSE(runs(std::stoi(written("pid"))));
  EXPECT_FALSE(std::filesystem::exists(path("ended"))) << "nobody waited for it";
}

// Its stdout is a pipe that other processes of the trainer's user can write to.
TEST_F(Following, WordsWithoutAnEndHoldNobodyUp) {
  started(with_follower("echo up; sleep 1000",
                        "if [ \"$2\" ]; then echo > again; exec sleep 1000; fi\n"
                        "echo ready; (yes | tr -d '\\n' &); kill -9 $$\n"));
  ASSERT_TRUE(says("up"));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path("again")); }));
  ASSERT_TRUE(kill(directory()));
  EXPECT_EQ(wait_for_end().signal, SIGKILL);
}

TEST_F(Following, IsTheTrainersUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a trainer as another user";
  auto what = spec("exit 0");
  what.user = "nobody";
  what.follower = {"/bin/sh", "-c", "id -un >&2; pwd >&2; echo ready; read line"};
  started(what);
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_EQ(log(), "nobody\n/\n");
}

}  // namespace
}  // namespace spotter::supervise
