// The meaning of a trainer's end. The same exit status is a success, a stop or a failure, by what
// was asked.
#include "agent/supervise/client.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {
namespace {

class TheVerdict : public testing::Test {
 protected:
  TheVerdict() {
    char name[] = "/tmp/spotter-verdict-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~TheVerdict() override { std::filesystem::remove_all(directory_); }

  void ask_to_stop() { std::ofstream(directory_ + "/notice") << "{}"; }
  std::string result(bool there) {
    const std::string path = directory_ + "/weights.bin";
    if (there) std::ofstream(path) << "weights";
    return path;
  }
  Verdict of(int exit_code, std::string declared = {}, bool said_finished = false) {
    Ended ended;
    ended.exit_code = exit_code;
    return judge(ended, {directory_, std::move(declared), said_finished});
  }
  std::string directory_;
};

TEST_F(TheVerdict, OfStatusZeroIsSuccess) { EXPECT_TRUE(of(0).success); }

TEST_F(TheVerdict, OfStatusZeroWithoutTheDeclaredResultIsFailure) {
  const Verdict verdict = of(0, result(false));
  EXPECT_FALSE(verdict.success);
  EXPECT_FALSE(verdict.stopped_as_asked);
}

TEST_F(TheVerdict, OfAResultThatCannotBeLookedAtIsNotThatItIsAbsent) {
  std::filesystem::create_symlink("way", directory_ + "/way");  // that leads to itself
  EXPECT_TRUE(of(0, directory_ + "/way/weights.bin").success) << "who acts on it asks once more";
  EXPECT_FALSE(of(0, directory_ + "/nowhere/weights.bin").success);
}

TEST_F(TheVerdict, OfStatusZeroAfterAStopSignalNeedsProofOfTheResult) {
  ask_to_stop();
  EXPECT_FALSE(of(0).success) << "it may only have saved and stopped";
  EXPECT_TRUE(of(0).stopped_as_asked);
  EXPECT_TRUE(of(0, {}, true).success) << "it said that it is finished";
  EXPECT_FALSE(of(0, result(true)).success) << "it may be the result of an earlier epoch";
  EXPECT_TRUE(of(0, result(true), true).success);
  EXPECT_FALSE(of(0, directory_ + "/nowhere", true).success);
}

TEST_F(TheVerdict, OfStatusZeroAfterOthersStoppedItIsAStop) {
  std::ofstream(directory_ + "/" + stopper_name) << "process 1 (systemctl)";
  EXPECT_EQ(stopper(directory_), "process 1 (systemctl)");
  EXPECT_FALSE(of(0).success) << "it may only have saved and stopped";
  EXPECT_TRUE(of(0).stopped_as_asked);
  EXPECT_TRUE(of(143).stopped_as_asked) << "no attempt that failed";
  EXPECT_FALSE(of(0, result(true)).success) << "it may be the result of an earlier epoch";
  EXPECT_TRUE(of(0, result(true), true).success);
  ask_to_stop();
  EXPECT_EQ(stopper(directory_), "") << "the agent asked before: a shutdown";
}

// stop_signal: none. Whoever was asked nothing, and ends, means it.
TEST_F(TheVerdict, OfStatusZeroWithTheResultIsSuccessWhereNothingIsAsked) {
  ask_to_stop();
  Ended ended;
  ended.exit_code = 0;
  EXPECT_TRUE(judge(ended, {directory_, result(true), false, "", false, true}).success);
  EXPECT_FALSE(judge(ended, {directory_, {}, false, "", false, true}).success) << "none declared";
  std::filesystem::remove(directory_ + "/weights.bin");
  const Verdict verdict = judge(ended, {directory_, result(false), false, "", false, true});
  EXPECT_FALSE(verdict.success);
  EXPECT_TRUE(verdict.stopped_as_asked);
}

TEST_F(TheVerdict, OfStatus75IsAStopOnlyWhenItWasAskedFor) {
  EXPECT_FALSE(of(75).stopped_as_asked);
  ask_to_stop();
  EXPECT_TRUE(of(75).stopped_as_asked);
  EXPECT_FALSE(of(75).success);
}

TEST_F(TheVerdict, OfStatus69IsOfItsMachineInAGangAlone) {
  Ended ended;
  ended.exit_code = 69;
  ended.job = "mine";
  EXPECT_FALSE(judge(ended, {directory_, {}, false, "mine", false}).unfit_machine);
  EXPECT_FALSE(judge(ended, {directory_, {}, false, "another", true}).unfit_machine);
  EXPECT_TRUE(judge(ended, {directory_, {}, false, "mine", true}).unfit_machine);
  ask_to_stop();
  EXPECT_FALSE(judge(ended, {directory_, {}, false, "mine", true}).unfit_machine)
      << "it goes anyway";
}

// Its agent was killed, and the machine is used again: else this job would end without training.
TEST_F(TheVerdict, OfAnotherJobsEndIsNothing) {
  Ended ended;
  ended.exit_code = 0;
  ended.job = "another";
  for (const bool in_gang : {false, true}) {
    EXPECT_FALSE(judge(ended, {directory_, {}, false, "mine", in_gang}).success);
    EXPECT_TRUE(judge(ended, {directory_, {}, false, "another", in_gang}).success);
  }
  EXPECT_FALSE(judge(ended, {directory_, result(true), true, "mine"}).success);
  ask_to_stop();
  EXPECT_FALSE(judge(ended, {directory_, {}, false, "mine"}).stopped_as_asked);
}

// Its agent may be killed after the sync or the unmount, and before the machine is gone.
TEST_F(TheVerdict, ThatItsMachineIsUnfitIsNotForgotten) {
  const auto left_after = [&](int exit_code, const std::string& job, bool in_gang = true) {
    std::ofstream(directory_ + "/ended.json")
        << R"({"exit_code": )" << exit_code << R"(, "job": "mine"})";
    const auto forgotten = forget({directory_, {}, false, job, in_gang});
    EXPECT_TRUE(forgotten) << forgotten.error().message;
    return std::filesystem::exists(directory_ + "/ended.json");
  };
  EXPECT_TRUE(left_after(69, "mine"));
  EXPECT_FALSE(left_after(69, "another"));
  EXPECT_FALSE(left_after(69, "mine", false));
  EXPECT_FALSE(left_after(0, "mine"));
}

TEST_F(TheVerdict, OfADeathByOurSignalIsAStop) {
  ask_to_stop();
  Ended ended;
  ended.signal = 15;
  EXPECT_TRUE(judge(ended, {directory_, {}, false}).stopped_as_asked);
}

}  // namespace
}  // namespace spotter::supervise
