// `spotter prepare`: the volume is filled under a claim, marked and released, or left alone.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

class Fill : public testing::Test {
 protected:
  Fill() { story.boot_to_fill(); }
  // vol-1: attached, claimed, mounted.
  void mount() {
    story.claim_volume();
    story.mount();
  }
  void expect_left_alone(const char* why) {
    EXPECT_EQ(story.stage(), "blocked") << why;
    story.wake();
    EXPECT_EQ(story.asked(), "exit") << why;
    EXPECT_FALSE(story.state.facts.exit.filled) << why;
  }

  Story story;
};

TEST_F(Fill, ClaimsFillsMarksAndReleasesTheVolume) {
  mount();
  EXPECT_EQ(story.asked(), "fill-volume") << "no ledger, no trainer";
  story.answer(VolumeFilled{});
  ASSERT_TRUE(story.did<MarkPrepared>());
  EXPECT_EQ(story.did<MarkPrepared>()->volume, kVolume);
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "unmount");
  story.answer(Unmounted{});
  EXPECT_EQ(story.asked(), "") << "others have to see the claim first";
  story.wake();
  EXPECT_EQ(story.asked(), "detach-volume");
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "exit");
  EXPECT_TRUE(story.state.facts.exit.filled);
}

// `spotter fetch`: nothing is marked, and a volume of a job that is done is read, too.
TEST_F(Fill, SendsFilesOfAVolumeThatIsDone) {
  story.policy.sends_result = true;
  SeenVolume done = the_volume();
  done.done = true;
  const Story fresh = story;
  story.survey({done});
  EXPECT_EQ(story.asked(), "attach-volume");
  story = fresh;
  mount();
  EXPECT_EQ(story.asked(), "fill-volume");
  story.answer(VolumeFilled{});
  EXPECT_FALSE(story.did<MarkPrepared>());
  EXPECT_EQ(story.asked(), "unmount");
  EXPECT_TRUE(story.state.facts.exit.filled);
}

TEST_F(Fill, LeavesAVolumeAloneThatSomebodyUsesOrMoves) {
  const Story fresh = story;
  const auto expect = [&](const char* why, std::vector<SeenVolume> volumes,
                          std::vector<SeenSnapshot> snapshots = {}) {
    story = fresh;
    story.survey(std::move(volumes), std::move(snapshots));
    expect_left_alone(why);
  };
  expect("another machine has it", {held(the_volume(), "i-other")});
  expect("it is in another zone", {the_volume("us-west-2b")});
  expect("a copy is being made of it", {the_volume(), the_copy(Role::Candidate)});
  expect("a snapshot for a copy is under way", {the_volume()},
         {the_snapshot(SnapshotState::Pending)});
  expect("there is none", {});
  SeenVolume done = the_volume();
  done.done = true;
  expect("the job is done", {done});
}

TEST_F(Fill, AskedToStopItReleasesWhatItHas) {
  mount();
  story.sense(StopRequested{story.now});
  ASSERT_TRUE(story.did<Abandon>()) << "terabytes are not waited for";
  story.answer(EffectFailed{Failure::Abandoned, true, {}});
  EXPECT_EQ(story.asked(), "unmount");
  story.answer(Unmounted{});
  story.wake();
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "exit");
  EXPECT_FALSE(story.state.facts.exit.filled);
}

TEST_F(Fill, WhatFailsIsSaidOnceAndTheVolumeIsFree) {
  mount();
  story.answer(EffectFailed{Failure::MountFailed, false, "no such bucket"});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_NE(describe(story.state, story.policy).find("no such bucket"), std::string::npos);
  story.wake();
  EXPECT_EQ(story.asked(), "unmount");
}

}  // namespace
}  // namespace spotter::decide
