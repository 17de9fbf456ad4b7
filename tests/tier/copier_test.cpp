// The guard's side: which program runs when, and what a person reads.
#include "agent/guard/run.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/trainer/scratch.hpp"

namespace spotter::guard {
namespace {

using std::chrono::milliseconds;

class ACopier : public testing::Test {
 protected:
  Copier copier(const std::string& script) const {
    return Copier(
        {"/bin/sh", "-c", "cd " + scratch_.path().string() + "; echo >> runs; " + script});
  }
  static std::optional<std::string> words_of(Copier& copier) {
    while (true) {
      if (auto words = copier.look()) return words;
      if (!copier.is_busy()) return std::nullopt;
      ::usleep(1000);
    }
  }
  std::size_t runs() const {
    const auto path = scratch_.path() / "runs";
    return std::filesystem::exists(path) ? std::filesystem::file_size(path) : 0;
  }

  test::Scratch scratch_;
};

TEST_F(ACopier, DoesNothingWithoutAProgram) {
  Copier none;
  none.offer();
  EXPECT_FALSE(none.look());
  EXPECT_FALSE(none.is_busy());
  EXPECT_FALSE(none.finish(milliseconds(10'000)));
}

TEST_F(ACopier, SaysTheFirstCopyAlone) {
  auto copies = copier("echo checkpoint-5");
  copies.offer();
  EXPECT_EQ(words_of(copies),
            "checkpoint-5 is copied to S3, as the newest checkpoint is from here on");
  copies.offer();
  EXPECT_EQ(words_of(copies), std::nullopt);
  EXPECT_EQ(runs(), 2U);
}

// It is tried again, after a pause.
TEST_F(ACopier, SaysWhatIsWrongOnce) {
  auto fails = copier("echo 'no such bucket'; exit 1");
  fails.offer();
  EXPECT_EQ(words_of(fails), "no such bucket");
  EXPECT_TRUE(fails.is_busy());
  EXPECT_FALSE(fails.look());
  EXPECT_EQ(runs(), 1U);
  EXPECT_EQ(fails.finish(milliseconds(60'000)), std::nullopt);
  EXPECT_EQ(runs(), 2U);
}

TEST_F(ACopier, AtTheEndAnOlderCopyGivesWayToTheNewest) {
  auto slow = copier("test -e second && echo checkpoint-6 && exit; touch second; exec sleep 1000");
  slow.offer();
  EXPECT_FALSE(slow.look());
  while (!std::filesystem::exists(scratch_.path() / "second")) ::usleep(1000);
  slow.offer();
  EXPECT_TRUE(slow.finish(milliseconds(60'000)).value_or("").starts_with("checkpoint-6 is copied"));
}

// Tests may run with a priority of their own, and in a container that may not set a group's.
TEST_F(ACopier, LeavesTheProcessorToTrainingButAtTheEnd) {
  constexpr const char* priority = "echo $(nice) $(cat /proc/self/autogroup)";
  const bool may_group = std::system(
                             "exec 2>/dev/null; setsid sh -c 'echo 19 > /proc/self/autogroup && "
                             "grep -q \"nice 19\" /proc/self/autogroup'") == 0;
  ::usleep(200'000);  // without a capability Linux takes one such word in 100 ms
  auto copies = copier(priority);
  copies.offer();
  const auto beside = words_of(copies).value_or("");
  EXPECT_TRUE(beside.starts_with("19 ")) << beside;
  EXPECT_TRUE(!may_group || beside.find("nice 19 is") != beside.npos) << beside;

  auto last = copier(priority);
  last.offer();
  const auto at_the_end = last.finish(milliseconds(60'000)).value_or("");
  const auto own = std::to_string(::getpriority(PRIO_PROCESS, 0)) + " ";
  EXPECT_TRUE(at_the_end.starts_with(own)) << at_the_end;
  EXPECT_EQ(at_the_end.find("nice 19 is"), at_the_end.npos) << at_the_end;
}

TEST_F(ACopier, AtTheEndTheNewestsCopyIsNotBegunAgain) {
  auto slow = copier("test -e begun && exit 1; touch begun; sleep 1; echo checkpoint-6");
  slow.offer();
  EXPECT_FALSE(slow.look());
  EXPECT_TRUE(slow.finish(milliseconds(60'000)).value_or("").starts_with("checkpoint-6 is copied"));
}

// It becomes the trainer's user, who may read its environment.
TEST_F(ACopier, PassesOnNothingThatIsNotForIt) {
  ::setenv("GITHUB_TOKEN", "secret", 1);
  ::setenv("AWS_REGION", "us-west-2", 1);
  auto copies = copier("echo \"$AWS_REGION,$GITHUB_TOKEN\"");
  copies.offer();
  const auto words = copies.finish(milliseconds(60'000));
  ::unsetenv("GITHUB_TOKEN");
  ::unsetenv("AWS_REGION");
  EXPECT_TRUE(words.value_or("").starts_with("us-west-2, is copied")) << words.value_or("");
}

TEST_F(ACopier, WhatHasNoTimeIsGivenUp) {
  auto slow = copier("exec sleep 1000");
  slow.offer();
  EXPECT_EQ(slow.finish(milliseconds(0)),
            "the last checkpoint is not copied to S3: no time is left");
  EXPECT_FALSE(slow.is_busy());
}

}  // namespace
}  // namespace spotter::guard
