// Volumes of data: had before the trainer starts, released after the job's volume, removed at the
// end. And how one of them comes to be attached here.
#include "agent/decide/data_volume.hpp"

#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

using Kind = DataStep::Kind;

// Up to the question for the data.
struct Reader : Story {
  Reader() {
    policy.data = 2;
    boot();
    take_volume();
    pass(seconds(60));
  }
  void train() {
    answer(Mounted{});
    answer(CodeFetched{});
    answer(LedgerWritten{});
    answer(TrainerStarted{});
  }
  // The job's volume is released, and then the data is asked for.
  void release() {
    answer(LedgerWritten{});
    EXPECT_EQ(stage(), "unmounting");
    answer(Unmounted{});
    EXPECT_EQ(stage(), "detaching");
    answer(CallAccepted{});
    EXPECT_EQ(stage(), "releasing-data");
  }
};

EffectFailed failed(Failure kind, bool unsettled = false) {
  EffectFailed failed;
  failed.failure = kind;
  failed.unsettled = unsettled;
  failed.detail = "CreateVolume: InvalidSnapshot.NotFound";
  return failed;
}

SeenVolume of_data(VolumeId id, Zone zone = "us-west-2a") {
  SeenVolume volume;
  volume.id = id;
  volume.zone = zone;
  volume.from = "snap-1";
  return volume;
}

TEST(Data, IsThereBeforeTheCodeIsFetched) {
  Reader story;
  EXPECT_EQ(story.stage(), "preparing-data");
  ASSERT_NE(story.did<PrepareData>(), nullptr);
  EXPECT_EQ(story.did<PrepareData>()->zone, "us-west-2a");
  story.answer(Mounted{});
  EXPECT_EQ(story.stage(), "fetching-code");
}

TEST(Data, OfAJobThatHasNoneIsNotAskedFor) {
  Story story;
  story.train();
  EXPECT_EQ(story.stage(), "training");
  story.unmount_on_notice(minutes(2));
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "released");
}

TEST(Data, IsReleasedAfterTheJobsVolumeForWhichTheNextOneWaits) {
  Reader story;
  story.train();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + minutes(2)});
  story.sense(TrainerEnded{false, true});
  story.release();
  ASSERT_NE(story.did<ReleaseData>(), nullptr);
  EXPECT_FALSE(story.did<ReleaseData>()->remove);
  story.answer(failed(Failure::Busy));  // the end of the instance does it
  EXPECT_EQ(story.stage(), "released");
  story.sense(NoticeWithdrawn{});
  EXPECT_TRUE(story.state.facts.holding.data) << "it is spared, and still has it";
}

TEST(Data, IsRemovedWhenTheJobIsDoneAndThatIsTriedAgain) {
  Reader story;
  story.train();
  story.finish();
  ASSERT_NE(story.did<ReleaseData>(), nullptr);
  EXPECT_TRUE(story.did<ReleaseData>()->remove);
  story.answer(failed(Failure::Unavailable));
  EXPECT_EQ(story.stage(), "releasing-data");
  story.wake();
  ASSERT_NE(story.did<ReleaseData>(), nullptr);
  story.answer(Unmounted{});
  EXPECT_EQ(story.stage(), "tidying");
}

// A process that does not end keeps the job's volume busy, and not these.
TEST(Data, IsRemovedWhenTheJobIsDoneAlsoWhereItsVolumeStaysInUse) {
  Reader story;
  story.train();
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  story.answer(LedgerWritten{});
  story.answer(CallAccepted{});
  while (story.stage() == "unmounting") {
    story.answer(failed(Failure::Busy));
    if (story.stage() == "unmounting") story.wake();
  }
  ASSERT_NE(story.did<ReleaseData>(), nullptr);
  EXPECT_TRUE(story.did<ReleaseData>()->remove);
  story.answer(Unmounted{});
  EXPECT_EQ(story.stage(), "tidying");
}

// The end, in whichever zone, deletes the free volumes of the others and detaches none that is
// used.
TEST(Data, ThatLiesFreeGoesBeforeTheFleetDoes) {
  Reader story;
  story.train();
  story.finish();
  story.answer(Unmounted{});
  SeenVolume done = the_volume();
  done.done = true;
  const SeenVolume theirs = held(of_data("vol-8", "us-west-2b"), "i-other");
  story.answer(StorageSurveyed{{{done}, {}, {theirs, of_data("vol-7", "us-west-2b")}}});
  ASSERT_NE(story.did<DeleteVolume>(), nullptr);
  EXPECT_EQ(story.did<DeleteVolume>()->volume, "vol-7");
  story.answer(CallAccepted{});
  story.pass(minutes(2));
  story.wake();
  story.answer(StorageSurveyed{{{done}, {}, {theirs}}});
  EXPECT_EQ(story.stage(), "tidying");
  EXPECT_EQ(story.asked(), "");
  story.pass(minutes(20));
  story.wake();
  story.answer(StorageSurveyed{{{done}, {}, {theirs}}});
  EXPECT_EQ(story.asked(), "cancel-fleet");
  EXPECT_NE(describe(story.state, story.policy).find("vol-8 (i-other)"), std::string::npos);
}

// EC2 showed the attachment only after the release had looked for one.
TEST(Data, ThatWasAttachedUnseenIsReleasedWhenTidying) {
  Reader story;
  story.train();
  story.finish();
  story.answer(Unmounted{});
  SeenVolume done = the_volume();
  done.done = true;
  const SeenVolume mine = held(of_data("vol-8"), kMe);
  story.answer(StorageSurveyed{{{done}, {}, {mine}}});
  ASSERT_NE(story.did<DetachVolume>(), nullptr);
  EXPECT_EQ(story.did<DetachVolume>()->volume, "vol-8");
  SeenVolume going = mine;
  going.attachment = AttachmentState::Detaching;
  story.answer(CallAccepted{});
  story.wake();
  story.answer(StorageSurveyed{{{done}, {}, {going}}});
  EXPECT_EQ(story.stage(), "tidying");
  EXPECT_EQ(story.asked(), "");
}

TEST(Data, IsGivenUpForANotice) {
  Reader story;
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + minutes(2)});
  EXPECT_EQ(story.asked(), "abandon");
  story.answer(failed(Failure::Abandoned));
  story.release();
  story.answer(Unmounted{});
  EXPECT_EQ(story.stage(), "released");
}

TEST(Data, ThatCannotBeHadIsForAPerson) {
  for (const Failure kind : {Failure::Missing, Failure::Rejected, Failure::DiskForeign}) {
    Reader story;
    story.answer(failed(kind));
    EXPECT_EQ(story.stage(), "blocked");
    EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::DataUnusable);
  }
  Reader story;
  story.answer(failed(Failure::Refused));
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::NotPermitted);
}

TEST(Data, ThatIsLateIsAskedForAgainAndTheTimeCounts) {
  Reader story;
  story.answer(failed(Failure::Unavailable));
  EXPECT_EQ(story.stage(), "waiting");
  Reader slow;
  slow.answer(failed(Failure::Unavailable, true));
  EXPECT_EQ(slow.stage(), "blocked");
  EXPECT_GE(slow.state.facts.trouble.blocked, slow.policy.prepare_data);
}

TEST(Data, IsLookedForAgainByTheNextAgent) {
  Story story;
  story.policy.data = 1;
  story.adopt();
  EXPECT_TRUE(story.state.facts.holding.data);
}

// --- one volume of it ---

struct One {
  Policy policy;
  Time now{Duration(1'000'000)};
  DataVolume data{"snap-1", "us-west-2a", kMe};
  DataStep look(std::vector<SeenVolume> seen, Duration later = seconds(1)) {
    now += later;
    return data.next(seen, now, policy);
  }
};

SeenVolume changing(SeenVolume volume, InstanceId by, AttachmentState state) {
  volume = held(volume, by);
  volume.attachment = state;
  return volume;
}

TEST(DataVolume, IsMadeWhereThisZoneHasNoneOfThisSnapshot) {
  One one;
  SeenVolume other = of_data("vol-3");
  other.from = "snap-2";
  SeenVolume broken = of_data("vol-4");
  broken.state = VolumeState::Error;
  const auto step = one.look({of_data("vol-2", "us-west-2b"), other, broken});
  EXPECT_EQ(step.kind, Kind::Make);
  EXPECT_EQ(step.attempt, 0U);
}

TEST(DataVolume, ThatNobodyHasIsTaken) {
  One one;
  const auto step =
      one.look({held(of_data("vol-1"), "i-other"), of_data("vol-3"), of_data("vol-2")});
  EXPECT_EQ(step.kind, Kind::Attach);
  EXPECT_EQ(step.volume, "vol-2");
}

TEST(DataVolume, OfAnotherInstanceIsLeftThereAndAnotherMade) {
  One one;
  EXPECT_EQ(one.look({held(of_data("vol-1"), "i-other")}).kind, Kind::Make);
}

TEST(DataVolume, ThatAPredecessorReleasesIsWaitedForAWhile) {
  One one;
  const auto going = changing(of_data("vol-1"), "i-other", AttachmentState::Detaching);
  EXPECT_EQ(one.look({going}).kind, Kind::Wait);
  EXPECT_EQ(one.look({of_data("vol-1")}).kind, Kind::Attach);
  EXPECT_EQ(one.look({going}).kind, Kind::Wait);
  EXPECT_EQ(one.look({going}, minutes(2)).kind, Kind::Make);
}

TEST(DataVolume, ThatHangsIsReleasedAndAttachedAgainByAnotherName) {
  One one;
  EXPECT_EQ(one.look({of_data("vol-1")}).attempt, 0U);
  const auto hangs = changing(of_data("vol-1"), kMe, AttachmentState::Attaching);
  EXPECT_EQ(one.look({hangs}).kind, Kind::Wait);
  EXPECT_EQ(one.look({hangs}, minutes(2)).kind, Kind::Detach);
  const auto going = changing(of_data("vol-1"), kMe, AttachmentState::Detaching);
  EXPECT_EQ(one.look({going}).kind, Kind::Wait);
  EXPECT_EQ(one.look({of_data("vol-1")}).attempt, 1U);
}

TEST(DataVolume, WhoseDeviceDoesNotAppearIsAttachedAgain) {
  One one;
  const auto mine = held(of_data("vol-1"), kMe);
  EXPECT_EQ(one.look({mine}).kind, Kind::Use);
  one.data.absent("vol-1");
  EXPECT_EQ(one.look({mine}).kind, Kind::Detach);
  EXPECT_EQ(one.look({of_data("vol-1")}).kind, Kind::Attach);
  EXPECT_EQ(one.look({mine}).kind, Kind::Use);
}

TEST(DataVolume, IsNotMadeTwiceOnlyBecauseItIsNotShownYet) {
  One one;
  EXPECT_EQ(one.look({}).kind, Kind::Make);
  one.data.made("vol-1", one.now);
  EXPECT_EQ(one.look({}).kind, Kind::Wait);
  SeenVolume young = of_data("vol-1");
  young.state = VolumeState::Creating;
  EXPECT_EQ(one.look({young}).kind, Kind::Wait);
}

TEST(DataVolume, ThatFailedIsMadeAgainByAnotherRequest) {
  One one;
  EXPECT_EQ(one.look({}).kind, Kind::Make);
  one.data.made("vol-1", one.now);
  SeenVolume broken = of_data("vol-1");
  broken.state = VolumeState::Error;
  const auto step = one.look({broken});
  EXPECT_EQ(step.kind, Kind::Make);
  EXPECT_EQ(step.attempt, 1U);
}

TEST(DataVolume, ThatVanishesTwiceIsSaidToHave) {
  One one;
  one.look({});
  one.data.made("vol-1", one.now);
  EXPECT_EQ(one.look({}, minutes(1)).kind, Kind::Make);
  one.data.made("vol-2", one.now);
  EXPECT_EQ(one.look({}, minutes(1)).kind, Kind::Vanished);
}

}  // namespace
}  // namespace spotter::decide
