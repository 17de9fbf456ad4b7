// A change that EC2 takes and never shows: neither a loop without a pause, nor one without an end.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

// The volume is attached here, and whatever is written on it, it shows another's generation.
struct Forgetful : Story {
  Forgetful() {
    boot();
    volume = the_volume();
    volume.state = VolumeState::InUse;
    volume.holder = kMe;
    volume.attachment = AttachmentState::Attached;
  }
  // Up to the next claim, or to the stage `blocked`.
  void look() {
    do {
      if (!state.awaited) wake();
      if (!state.awaited) continue;
      answer(StorageSurveyed{{{volume}, {}}});
    } while (stage() != "claiming" && stage() != "blocked");
  }
  SeenVolume volume;
};

TEST(InVain, AChangeThatIsTakenAndNeverShownIsSpacedOutAndThenBlocks) {
  Forgetful story;
  std::uint32_t claims = 0;
  for (story.look(); story.stage() == "claiming"; story.look()) {
    ++claims;
    story.volume.generation += 2;  // another program writes it, too
    story.answer(CallAccepted{});
  }
  EXPECT_EQ(claims, story.policy.changes_in_vain);
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::ChangeInVain);
  EXPECT_GT(story.now, Time(minutes(10))) << "it did not take minutes: nothing was spaced out";
}

TEST(InVain, AnAnswerThatIsNeverReadIsSpacedOutAndAsksNobody) {
  Forgetful story;
  const std::uint32_t many = 3 * story.policy.changes_in_vain;
  std::uint32_t claims = 0;
  for (story.look(); story.stage() == "claiming" && claims < many; story.look()) {
    ++claims;
    EffectFailed unread;
    unread.unsettled = true;
    ++story.volume.generation;  // it was carried out
    story.answer(unread);
  }
  EXPECT_EQ(claims, many) << "EC2 may be out of order for hours";
  EXPECT_EQ(story.stage(), "claiming");
  EXPECT_GT(story.now, Time(many / 2 * story.policy.retry_last)) << "nothing was spaced out";
}

TEST(InVain, OnceItIsShownTheWorkGoesOn) {
  Forgetful story;
  for (story.look(); story.stage() == "claiming"; story.look()) {
    story.volume.generation += 2;
    story.answer(CallAccepted{});
  }
  story.volume.generation = story.state.facts.holding.generation;
  while (story.stage() != "finding-device") {
    if (story.state.awaited)
      story.answer(StorageSurveyed{{{story.volume}, {}}});
    else
      story.wake();
  }
}

TEST(InVain, ThrottledCallsHaveTheirOwnPausesAndBlockNobody) {
  Forgetful story;
  for (int i = 0; i < 60; ++i) {
    story.look();
    ASSERT_EQ(story.stage(), "claiming");
    story.answer(EffectFailed{});
  }
}

TEST(InVain, AReleaseIsNotHeldUpByIt) {
  Forgetful story;
  for (story.look(); story.stage() == "claiming"; story.look()) {
    story.volume.generation += 2;
    story.answer(CallAccepted{});
  }
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + minutes(2)});
  ASSERT_EQ(story.stage(), "unmounting");  // it was attached before this session
  story.answer(Unmounted{});
  EXPECT_EQ(story.stage(), "detaching");
}

}  // namespace
}  // namespace spotter::decide
