// The volume is in another zone: the copy, the commit, and what is left over.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

// The volume is in zone a, we are in zone b: up to a copy that is attached here and verified.
void prove_copy(Story& story) {
  story.boot("us-west-2b");
  story.survey({the_volume()});
  EXPECT_EQ(story.asked(), "create-snapshot");
  story.answer(SnapshotStarted{"snap-1"});
  story.survey({the_volume()}, {the_snapshot(SnapshotState::Pending)});
  EXPECT_EQ(story.stage(), "waiting");
  story.survey({the_volume()}, {the_snapshot(SnapshotState::Completed)});
  EXPECT_EQ(story.asked(), "create-volume");
  story.answer(VolumeCreated{kCopy});
  story.survey({the_volume(), the_copy(Role::Candidate)});
  ASSERT_TRUE(story.did<AttachVolume>());
  EXPECT_EQ(story.did<AttachVolume>()->volume, kCopy);
  story.answer(CallAccepted{});
  story.survey({the_volume(), held(the_copy(Role::Candidate), kMe)});
  EXPECT_EQ(story.asked(), "find-device");
}

DiskInspected the_disk() {
  DiskInspected disk;
  disk.matches = true;
  return disk;
}

// The same, up to the deletion of the original, which is asked for.
void commit(Story& story) {
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  story.answer(the_disk());
  story.answer(Mounted{});
  story.answer(LedgerRead{});
  story.answer(CheckpointsVerified{});
  story.answer(StorageSurveyed{{{the_volume(), held(the_copy(Role::Candidate), kMe)}, {}}});
  ASSERT_EQ(story.asked(), "mark-verified");
  story.answer(CallAccepted{});
  story.answer(StorageSurveyed{{{the_volume(), held(the_copy(Role::Candidate), kMe)}, {}}});
  ASSERT_EQ(story.asked(), "delete-volume");
}

TEST(Migration, DeletesTheOldVolumeOnlyAfterTheCopyIsVerifiedAndThenWaitsForNothing) {
  Story story;
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  const DiskInspected disk = the_disk();
  story.answer(disk);
  ASSERT_TRUE(story.did<Mount>());
  EXPECT_TRUE(story.did<Mount>()->read_only) << "nothing writes to a copy before the commit";
  story.answer(Mounted{});
  Ledger ledger;
  ledger.newest_step = 250;
  story.answer(LedgerRead{ledger});
  story.answer(CheckpointsVerified{250, 0});
  story.answer(StorageSurveyed{{{the_volume(), held(the_copy(Role::Candidate), kMe)}, {}}});
  EXPECT_EQ(story.asked(), "mark-verified");
  story.answer(CallAccepted{});
  const Time attested = story.now;
  const SeenVolume copy = held(the_copy(Role::Verified), kMe);
  story.answer(StorageSurveyed{{{the_volume(), copy}, {}}});
  ASSERT_TRUE(story.did<DeleteVolume>());
  EXPECT_EQ(story.did<DeleteVolume>()->volume, kVolume);
  story.answer(CallAccepted{});
  ASSERT_TRUE(story.did<PromoteVolume>());
  EXPECT_EQ(story.did<PromoteVolume>()->volume, kCopy);
  SeenVolume claimed = copy;
  claimed.generation = story.did<PromoteVolume>()->generation;
  EXPECT_EQ(claimed.generation, copy.generation + 1);
  story.answer(CallAccepted{});
  EXPECT_EQ(story.now, attested);
  // EC2 may show neither yet; what it has taken is known all the same, and that it is claimed is
  // read back.
  story.answer(StorageSurveyed{{{the_volume(), copy}, {the_snapshot(SnapshotState::Completed)}}});
  EXPECT_EQ(story.stage(), "waiting");
  story.wake();
  story.answer(StorageSurveyed{{{the_volume(), claimed}, {}}});
  // It is mounted already. Proving it has moved nothing aside: it is verified for the trainer, too,
  // but not read again.
  ASSERT_TRUE(story.did<Mount>());
  EXPECT_FALSE(story.did<Mount>()->read_only);
  story.answer(Mounted{});
  story.answer(LedgerRead{ledger});
  ASSERT_EQ(story.asked(), "verify-checkpoints");
  EXPECT_FALSE(story.did<VerifyCheckpoints>()->read_only);
  EXPECT_EQ(story.did<VerifyCheckpoints>()->proven_step, 250);
}

// A person tags another volume then, before EC2 shows that the copy is verified.
TEST(Migration, ACopyWhoseMarkIsNotShownYetIsTheJobsAllTheSame) {
  Story story;
  commit(story);
  story.answer(CallAccepted{});
  story.answer(EffectFailed{Failure::Unavailable});
  story.wake();
  SeenVolume other = the_volume("us-west-2c");
  other.id = "vol-0other";
  story.answer(StorageSurveyed{{{other, held(the_copy(Role::Candidate), kMe)}, {}}});
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::TwoVolumes);
}

// The disk may have another name by then.
TEST(Migration, ACopyThatCouldNotBeMountedWritableIsLookedForAgain) {
  Story story;
  commit(story);
  story.answer(CallAccepted{});
  SeenVolume copy = held(the_copy(Role::Verified), kMe);
  copy.generation = story.did<PromoteVolume>()->generation;
  story.answer(CallAccepted{});
  story.answer(StorageSurveyed{{{the_volume(), copy}, {}}});
  ASSERT_TRUE(story.did<Mount>());
  story.answer(EffectFailed{Failure::Unavailable});
  story.wake();
  while (story.asked() != "survey-storage") story.answer(CallAccepted{});
  story.answer(StorageSurveyed{{{the_volume(), copy}, {}}});
  EXPECT_EQ(story.asked(), "find-device");
}

// An agent that finds the original gone cannot know which copy follows it: another one may have
// been verified.
void waits_and_elects(Story& story) {
  const Time gone = story.now;
  const SeenVolume copy = held(the_copy(Role::Verified), kMe);
  for (int look = 0; look < 100 && !story.did<PromoteVolume>(); ++look) {
    if (story.stage() == "waiting") story.wake();
    story.answer(StorageSurveyed{{{copy}, {}}});
    EXPECT_FALSE(story.did<Mount>());
  }
  ASSERT_TRUE(story.did<PromoteVolume>());
  EXPECT_GE(story.now - gone, 2 * story.policy.consistency_bound);
}

TEST(Migration, AnOriginalThatAnotherDeletedFirstIsFollowedOnlyAfterTwoBounds) {
  Story story;
  commit(story);
  story.answer(EffectFailed{Failure::Missing});
  EXPECT_EQ(story.stage(), "waiting");
  waits_and_elects(story);
}

TEST(Migration, ADeletionWithoutAnAnswerMayHaveBeenAnothers) {
  Story story;
  commit(story);
  story.answer(EffectFailed{Failure::Unavailable, true});
  EXPECT_EQ(story.stage(), "waiting");
  waits_and_elects(story);
}

// Others elect a copy two bounds after the original is gone: a promotion of the last moment they
// might not see.
TEST(Migration, APromotionThatOthersWouldSeeTooLateIsNotAskedFor) {
  Story story;
  commit(story);
  story.pass(story.policy.consistency_bound);
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "survey-storage");
  story.answer(StorageSurveyed{{{held(the_copy(Role::Verified), kMe)}, {}}});
  waits_and_elects(story);
}

// A machine that was paused: others have elected a copy meanwhile, perhaps another.
TEST(Migration, APromotionThatIsAnsweredTooLateIsLookedAtFirst) {
  Story story;
  commit(story);
  story.answer(CallAccepted{});
  story.pass(story.policy.consistency_bound + seconds(1));
  story.answer(CallAccepted{});
  EXPECT_EQ(story.state.facts.holding.generation, 0U);
  EXPECT_EQ(story.state.facts.move.committed_at, kNever);
  EXPECT_EQ(story.stage(), "waiting");
}

// The call may be carried out after its limit.
TEST(Migration, APromotionThatCouldBecomeLateIsNotAskedFor) {
  Story story;
  commit(story);
  story.pass(story.policy.consistency_bound * 3 / 4);
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "survey-storage");
}

// The original's next user may lose what it writes in this time.
TEST(Migration, ACommitFollowsFromAFreshLookAndIsShort) {
  Story story;
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  story.answer(the_disk());
  story.answer(Mounted{});
  story.answer(LedgerRead{});
  story.answer(CheckpointsVerified{});
  for (const char* next : {"mark-verified", "delete-volume"}) {
    ASSERT_EQ(story.asked(), "survey-storage");
    EXPECT_EQ(story.effects[0].deadline, story.now + story.policy.commit_call);
    story.answer(StorageSurveyed{{{the_volume(), held(the_copy(Role::Candidate), kMe)}, {}}});
    ASSERT_EQ(story.asked(), next);
    if (story.did<MarkVerified>()) story.answer(CallAccepted{});
  }
  EXPECT_EQ(story.effects[0].deadline, story.now + story.policy.commit_call);
}

TEST(Migration, InTheMiddleOfAMoveNoPersonIsAskedForBeforeACommitCanBeSeen) {
  for (const bool copy_is_shown : {true, false}) {
    Story story;
    story.boot();
    const Time gone = story.now;
    std::vector<SeenVolume> volumes;
    if (copy_is_shown) volumes = {the_copy(Role::Candidate)};
    do {
      story.survey(volumes, {the_snapshot(SnapshotState::Pending)});
    } while (story.stage() == "waiting");
    EXPECT_GE(story.now - gone, 2 * story.policy.consistency_bound);
    ASSERT_EQ(story.stage(), "blocked");
    EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::NoVolume);
  }
}

TEST(Migration, APromotionIsCarriedOutWithinABoundOrNever) {
  Story story;
  commit(story);
  const Time asked = story.now;
  story.pass(story.policy.consistency_bound / 2);
  story.answer(CallAccepted{});
  ASSERT_EQ(story.asked(), "promote-volume");
  EXPECT_LE(story.effects[0].deadline, asked + story.policy.consistency_bound);
  story.answer(EffectFailed{Failure::Unavailable, true});
  EXPECT_EQ(story.stage(), "waiting");
  waits_and_elects(story);
}

// A session forgets its own commit when everybody can see it.
TEST(Migration, WhatWasCommittedIsBelievedOverEc2ForOneBound) {
  Story story;
  commit(story);
  story.answer(CallAccepted{});
  story.answer(CallAccepted{});
  story.pass(story.policy.consistency_bound);
  SeenVolume untagged = held(the_copy(Role::State), kMe);  // by a person
  story.answer(StorageSurveyed{{{untagged}, {}}});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::NoVolume);
}

TEST(Migration, ACopyWithoutTheNewestCheckpointNeverReplacesItsParent) {
  Story story;
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  story.answer(disk);
  story.answer(Mounted{});
  Ledger ledger;
  ledger.newest_step = 250;
  story.answer(LedgerRead{ledger});
  story.answer(CheckpointsVerified{200, 1});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::CopyDamaged);
}

TEST(Migration, AnOriginalInUseAgainMakesTheCopyStaleAndItIsDropped) {
  Story story;
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  story.answer(disk);
  story.answer(Mounted{});
  story.answer(LedgerRead{});
  story.answer(CheckpointsVerified{});
  const SeenVolume copy = held(the_copy(Role::Candidate), kMe);
  story.answer(StorageSurveyed{{{held(the_volume(), "i-other"), copy}, {}}});
  EXPECT_EQ(story.asked(), "unmount");
  story.answer(Unmounted{});
  EXPECT_EQ(story.asked(), "detach-volume");
  EXPECT_EQ(story.did<DetachVolume>()->volume, kCopy);
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "survey-storage");
}

TEST(Migration, ACommitLostToAnotherInstanceGoesToTheLowestId) {
  Story story;
  story.boot("us-west-2b");
  SeenVolume winner = held(the_copy(Role::Verified), "i-other");
  winner.id = "vol-0";
  const SeenVolume mine = held(the_copy(Role::Verified), kMe);
  while (!story.did<Unmount>()) story.survey({winner, mine});
  story.answer(Unmounted{});
  ASSERT_TRUE(story.did<DetachVolume>());
  EXPECT_EQ(story.did<DetachVolume>()->volume, kCopy);
}

TEST(Migration, AVerifiedCopyWhoseHolderDiedIsPromotedFromAnyZone) {
  Story story;
  story.boot("us-west-2a");
  const SeenVolume orphan = held(the_copy(Role::Verified), "i-dead", HolderState::Gone);
  while (!story.did<PromoteVolume>()) story.survey({orphan});
  EXPECT_EQ(story.did<PromoteVolume>()->volume, kCopy);
}

TEST(Migration, TheSnapshotGoesAfterTheFirstDurableCheckpoint) {
  Story story;
  story.train();
  EXPECT_EQ(story.asked(), "");
  story.sense(CheckpointMade{10});
  story.wake();
  EXPECT_NE(story.asked().find("survey-storage"), std::string::npos);
  SeenVolume mine = held(the_volume(), kMe);
  story.answer(StorageSurveyed{{{mine}, {the_snapshot(SnapshotState::Completed)}}});
  EXPECT_EQ(story.asked(), "delete-snapshot");
  EXPECT_EQ(story.stage(), "training");
}

TEST(Migration, ACopyWithCheckpointsOfAnotherFormatIsTakenAsItIs) {
  Story story;
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  story.answer(disk);
  story.answer(Mounted{});
  Ledger ledger;
  ledger.newest_step = 250;  // said by the trainer's datagrams
  story.answer(LedgerRead{ledger});
  story.answer(CheckpointsVerified{std::nullopt, 0});
  EXPECT_EQ(story.asked(), "survey-storage");
  EXPECT_EQ(story.state.facts.move.verified, kCopy);
}

TEST(Migration, AVolumeOfTheJobThatLostItsTagIsNotReplacedByAnOldSnapshot) {
  Story story;
  story.boot();
  SeenVolume untagged = the_volume();
  untagged.discoverable = false;
  story.survey({untagged}, {the_snapshot(SnapshotState::Completed)});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::NoVolume);
}

TEST(Migration, ACopyThatIsMadeAndThenGoneMeansTheKey) {
  Story story;
  story.boot("us-west-2b");
  story.survey({the_volume()}, {the_snapshot(SnapshotState::Completed)});
  ASSERT_TRUE(story.did<CreateVolume>());
  story.answer(VolumeCreated{kCopy});
  for (int look = 0; look < 100 && story.stage() != "blocked"; ++look) {
    story.survey({the_volume()}, {the_snapshot(SnapshotState::Completed)});
    EXPECT_FALSE(story.did<CreateVolume>()) << "the same again would not help";
  }
  ASSERT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::CopyVanished);
}

SeenSnapshot snapshot_of(std::uint64_t gibibytes) {
  SeenSnapshot snapshot = the_snapshot(SnapshotState::Completed);
  snapshot.gibibytes = gibibytes;
  return snapshot;
}

TEST(Migration, ARateIsPaidOnceAndCountedInTheLedger) {
  Story story;
  story.policy.initialization_rate = 300;
  story.boot("us-west-2b");
  story.survey({the_volume()}, {snapshot_of(100)});
  ASSERT_TRUE(story.did<CreateVolume>());
  EXPECT_EQ(story.did<CreateVolume>()->rate, 300U);
  story.answer(VolumeCreated{kCopy});
  EXPECT_NEAR(story.state.facts.move.rate_dollars, 0.36, 1e-9);
  SeenVolume copy = the_volume("us-west-2b");
  copy.id = kCopy;
  copy.lineage = kVolume;
  copy.moves = 1;
  story.survey({copy});  // another session has moved the job to it meanwhile
  story.answer(CallAccepted{});
  story.survey({held(copy, kMe)});
  story.answer(CallAccepted{});
  copy.generation = 1;
  story.survey({held(copy, kMe)});
  story.mount();
  Ledger ledger;
  ledger.dollars = 2;
  story.answer(LedgerRead{ledger});
  EXPECT_NEAR(story.state.facts.progress.ledger.dollars, 2.36, 1e-9);
  EXPECT_EQ(story.state.facts.move.rate_dollars, 0);
}

TEST(Migration, ARateThatIsRefusedHoldsUpNoMove) {
  for (const Failure refused : {Failure::Refused, Failure::Rejected}) {
    Story story;
    story.policy.initialization_rate = 300;
    story.boot("us-west-2b");
    story.survey({the_volume()}, {snapshot_of(100)});
    story.answer(EffectFailed{refused, false, "no rate for you"});
    story.survey({the_volume()}, {snapshot_of(100)});
    ASSERT_TRUE(story.did<CreateVolume>());
    EXPECT_EQ(story.did<CreateVolume>()->rate, 0U);
    EXPECT_EQ(story.state.facts.move.rate_dollars, 0);
    story.answer(EffectFailed{refused, false, "nor without"});
    EXPECT_EQ(story.stage(), "blocked");
  }
}

TEST(Migration, AnotherOnesDoneTagIsNotOurs) {
  Story story;
  story.boot();
  SeenVolume old = the_volume();
  old.id = "vol-old";
  old.discoverable = false;
  old.done = true;
  story.survey({old, the_volume()});
  EXPECT_EQ(story.asked(), "attach-volume");
}

// Found by simulate, seed 103: the stale copy had the lower id, and step 50 was lost.
TEST(Migration, ACopyOfAnEarlierGenerationIsNeverPromoted) {
  Story story;
  story.boot("us-west-2b");
  SeenVolume stale = the_copy(Role::Verified, 0);
  stale.id = "vol-0";
  const SeenVolume fresh = held(the_copy(Role::Verified, 1), kMe);
  while (!story.did<PromoteVolume>()) story.survey({stale, fresh});
  EXPECT_EQ(story.did<PromoteVolume>()->volume, kCopy);
}

// An old picture shows what is gone, again and again: found by `explore` as a loop without a pause.
TEST(Migration, WhatIsGoneAndStillShownIsNotDeletedWithoutAPause) {
  Story story;
  story.boot("us-west-2b");
  SeenVolume failed = the_copy(Role::Candidate);
  failed.state = VolumeState::Error;
  story.survey({the_volume(), failed});
  ASSERT_EQ(story.asked(), "delete-volume");
  story.answer(EffectFailed{Failure::Missing});
  EXPECT_EQ(story.asked(), "");
  EXPECT_EQ(story.stage(), "waiting");
}

}  // namespace
}  // namespace spotter::decide
