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

// The trainer alone says that it hinders its gang, and may say so on each machine that comes.
TEST(AMachineThatHindersItsGang, IsGivenBackWhenItIsOldEnoughAndNotBefore) {
  EffectFailed silent;
  silent.failure = Failure::ShareSilent;
  Story story;
  story.policy.storage = StorageKind::Share;
  story.policy.replace_after = story.now.time_since_epoch() + minutes(20);
  story.sense(Started{});
  story.answer(HostLooked{
      .trainer = HostLooked::Trainer::Ended, .ended = {false, false, true}, .share = true});
  story.answer(IdentityRead{kMe, "p4d.24xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{{FleetKind::Ec2Fleet, "fleet-1"}, 4.0});
  story.answer(silent);
  story.answer(silent);
  EXPECT_EQ(story.stage(), "giving-back");
  EXPECT_EQ(story.did<GiveBackInstance>(), nullptr);
  EXPECT_EQ(story.state.wake_at, Time(story.policy.replace_after));
  story.wake();
  EXPECT_NE(story.did<GiveBackInstance>(), nullptr);
}

TEST(AGang, IsGivenUpWhenItsMachinesTogetherHaveUsedUpALimit) {
  Story story;
  story.policy.sums_costs = true;
  story.policy.hours_limit = 3;
  story.train();
  const auto read = [&story](double others) {
    for (int turn = 0; turn < 20 && story.did<ReadLedger>() == nullptr; ++turn) story.wake();
    ASSERT_NE(story.did<ReadLedger>(), nullptr) << "once a minute";
    LedgerRead all;
    all.others.seconds = others;
    story.answer(all);
    for (int turn = 0; turn < 20 && story.did<WriteLedger>() == nullptr; ++turn) story.wake();
  };
  read(2 * 3600);
  EXPECT_EQ(story.stage(), "training");
  read(3 * 3600);
  EXPECT_EQ(story.stage(), "stopping");
  EXPECT_EQ(story.state.facts.exit.surrender, Surrender::HoursSpent);
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
