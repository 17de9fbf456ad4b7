// Two jobs of one name, and an original that is back: only what is of the job's own line is used.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

// Another job of the same name, with a volume of its own: its copy and its snapshot.
SeenVolume a_namesakes(Role role) {
  SeenVolume volume = the_copy(role, 9);
  volume.id = "vol-other-copy";
  volume.parent = "vol-other";
  return volume;
}

TEST(Lineage, WhatANamesakeHasLeftFreeIsNotDeleted) {
  for (const char* lineage : {"", "vol-other"}) {
    Story story;
    story.train();
    SeenVolume copy = a_namesakes(Role::Candidate);
    copy.lineage = lineage;
    SeenSnapshot snapshot = the_snapshot(SnapshotState::Completed);
    snapshot.parent = "vol-other";
    snapshot.lineage = lineage;
    for (int look = 0; look < 3; ++look) {
      while (!story.did<SurveyStorage>()) story.wake();
      story.answer(StorageSurveyed{{{held(the_volume(), kMe), copy}, {snapshot}}});
      EXPECT_FALSE(story.did<DeleteVolume>());
      EXPECT_FALSE(story.did<DeleteSnapshot>());
    }
  }
}

TEST(Lineage, ANamesakesVerifiedCopyIsNeitherPromotedNorWaitedFor) {
  Story story;
  story.boot();
  SeenVolume volume = the_volume();
  volume.generation = 3;
  story.survey({volume, a_namesakes(Role::Verified)});
  ASSERT_TRUE(story.did<AttachVolume>());
  EXPECT_EQ(story.did<AttachVolume>()->volume, kVolume);
}

TEST(Lineage, OfTwoLinesWithoutAVolumeAPersonChooses) {
  Story story;
  story.boot();
  story.survey({the_copy(Role::Verified, 3), a_namesakes(Role::Verified)});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::TwoVolumes);
}

// The other job is in the middle of a move, too, and its copy is verified first.
TEST(Lineage, AKnownLineIsKeptWhileAnythingOfItIsShown) {
  for (const bool copy_is_shown : {true, false}) {
    Story story;
    story.boot("us-west-2b");
    story.survey({the_volume()});
    story.answer(SnapshotStarted{"snap-1"});
    std::vector<SeenVolume> volumes = {a_namesakes(Role::Verified)};
    if (copy_is_shown) volumes.push_back(the_copy(Role::Candidate));
    for (int look = 0; look < 50; ++look) {
      while (!story.state.awaited) story.wake();
      story.answer(StorageSurveyed{{volumes, {the_snapshot(SnapshotState::Pending)}}});
      ASSERT_FALSE(story.did<PromoteVolume>());
      ASSERT_EQ(story.state.facts.move.lineage, kVolume);
    }
  }
}

// Seed 268419963723: a person gave another volume the tag just when the original was gone, and EC2
// did not show its copy as the job's yet.
TEST(Lineage, AnothersVolumeIsNotTakenWhileOursIsBetweenTwoZones) {
  Story story;
  story.boot("us-west-2b");
  story.survey({the_volume()});
  story.answer(SnapshotStarted{"snap-1"});
  SeenVolume another = the_volume();
  another.id = "vol-another";
  while (!story.state.awaited) story.wake();
  story.answer(StorageSurveyed{
      {{another, the_copy(Role::Verified, 3)}, {the_snapshot(SnapshotState::Completed)}}});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::TwoVolumes);
  EXPECT_FALSE(story.did<CreateSnapshot>());
  EXPECT_EQ(story.state.facts.move.lineage, kVolume);
}

TEST(Lineage, ALineThatWasOnlyGuessedIsNotKept) {
  Story story;
  story.boot();
  story.survey({a_namesakes(Role::Verified)});
  ASSERT_EQ(story.stage(), "waiting");
  story.survey({the_copy(Role::Verified, 3), a_namesakes(Role::Verified)});
  ASSERT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::TwoVolumes);
}

TEST(Lineage, CopiesCarryTheIdOfTheFirstVolume) {
  Story story;
  story.boot("us-west-2a");
  SeenVolume moved = the_copy(Role::State, 4);
  moved.discoverable = true;
  moved.lineage = kVolume;
  story.survey({moved});
  ASSERT_TRUE(story.did<CreateSnapshot>());
  EXPECT_EQ(story.did<CreateSnapshot>()->lineage, kVolume);
}

// EC2's recycle bin gives a deleted volume back with its tags.
TEST(Lineage, TheOriginalThatIsBackIsNeverTheJobsVolumeAgain) {
  SeenVolume moved = the_copy(Role::State, 0);
  moved.discoverable = true;
  moved.lineage = kVolume;
  moved.moves = 1;
  for (const std::uint32_t generation : {0U, 1U}) {
    Story story;
    story.boot("us-west-2b");
    moved.generation = generation;  // not claimed yet; claimed
    story.survey({the_volume(), moved});
    ASSERT_TRUE(story.did<AttachVolume>());
    EXPECT_EQ(story.did<AttachVolume>()->volume, kCopy);
  }
}

}  // namespace
}  // namespace spotter::decide
