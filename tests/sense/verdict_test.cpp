// What a trainer's end means. The same exit status is a success, a stop or a failure, by what was
// asked.
#include "agent/supervise/verdict.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

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

TEST_F(TheVerdict, OfStatus75IsAStopOnlyWhenItWasAskedFor) {
  EXPECT_FALSE(of(75).stopped_as_asked);
  ask_to_stop();
  EXPECT_TRUE(of(75).stopped_as_asked);
  EXPECT_FALSE(of(75).success);
}

TEST_F(TheVerdict, OfADeathByOurSignalIsAStop) {
  ask_to_stop();
  Ended ended;
  ended.signal = 15;
  EXPECT_TRUE(judge(ended, {directory_, {}, false}).stopped_as_asked);
}

}  // namespace
}  // namespace spotter::supervise
