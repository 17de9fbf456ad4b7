// A machine of a gang that is to be given back (gpus.cpp), by an agent that was started again,
// while its share hangs: that may be why the gang stopped because of it.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

// Blocked for long it would end the fleet, and with it the machines that train.
TEST(AGangsShare, ThatHangsDoesNotKeepAMachineThatIsGivenBack) {
  EffectFailed silent;
  silent.failure = Failure::ShareSilent;
  silent.unsettled = true;
  const HostLooked ended{
      .trainer = HostLooked::Trainer::Ended, .ended = {false, false, true}, .share = true};
  for (const bool mounts : {false, true}) {
    Story story;
    story.policy.storage = StorageKind::Share;
    story.sense(Started{});
    story.answer(ended);
    story.answer(IdentityRead{kMe, "p4d.24xlarge", "us-west-2a", "us-west-2"});
    story.answer(FleetRead{{FleetKind::Ec2Fleet, "fleet-1"}, 4.0});
    if (mounts) story.answer(Mounted{});
    ASSERT_EQ(story.asked(), mounts ? "read-ledger" : "prepare-share");
    story.answer(silent);
    EXPECT_EQ(story.asked(), "release-share");
    story.answer(silent);
    EXPECT_EQ(story.stage(), "giving-back");
    EXPECT_NE(story.did<GiveBackInstance>(), nullptr);
  }
}

TEST(AGangsShare, ThatHangsHasItsFleetAskedForAgain) {
  EffectFailed silent;
  silent.failure = Failure::ShareSilent;
  EffectFailed refused;
  refused.failure = Failure::Refused;
  Story story;
  story.policy.storage = StorageKind::Share;
  story.sense(Started{});
  story.answer(HostLooked{
      .trainer = HostLooked::Trainer::Ended, .ended = {false, false, true}, .share = true});
  story.answer(IdentityRead{kMe, "p4d.24xlarge", "us-west-2a", "us-west-2"});
  story.answer(refused);
  story.answer(silent);
  EXPECT_EQ(story.stage(), "blocked") << "nobody may replace it";
  story.wake();
  EXPECT_EQ(story.asked(), "read-identity");
}

}  // namespace
}  // namespace spotter::decide
