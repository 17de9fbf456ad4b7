// The words of `scripts/simulate --gang --replay SEED`.
#include "tests/gang/simulator/story.hpp"

#include <gtest/gtest.h>

namespace spotter::gang {
namespace {

using Lines = std::vector<std::string>;

Record with(std::initializer_list<const char*> ids) {
  Record record{.job = "home"};
  for (const char* id : ids) record.members.push_back({.id = id, .name = id});
  return record;
}

TEST(TheStory, HasALineForEachChangeOfTheRecord) {
  const Record before = with({"m1", "m2"});
  EXPECT_EQ(changes(std::nullopt, before, "m1"), (Lines{"m1 is a member", "m2 is a member"}));
  Record after = before;
  ++after.members[0].beats;
  after.writer = "m1:2";
  EXPECT_EQ(changes(before, after, "m1"), Lines{}) << "that it lives";
  after.newest = 12;
  after.members[0].ready = true;
  after.members[0].end = End::Hung;
  after.members[1].ready = after.members[1].apart = true;
  after.members[1].missed = "m1";
  EXPECT_EQ(changes(before, after, "m1"),
            (Lines{"m1 is ready: a worker of it hung",
                   "m2 is ready: in the last round it did not reach m1",
                   "the newest checkpoint is of step 12"}));
}

TEST(TheStory, SaysWhoIsInARoundAndWhenItIsOver) {
  Record before = with({"m1", "m2", "m3"});
  Record training = before;
  training.phase = Record::Phase::Training;
  training.round = 1;
  training.ranks = {"m2", "m1", "m3"};
  EXPECT_EQ(changes(before, training, "m1"), Lines{"round 1 begins: m2 leads m1, m3"});
  Record next = training;
  next.round = 2;
  next.ranks = {"m2"};
  next.failures = 1;
  EXPECT_EQ(changes(training, next, "m2"), (Lines{"rounds in succession that failed: 1",
                                                  "round 1 is over", "round 2 begins: m2 alone"}));
  Record done = training;
  done.phase = Record::Phase::Done;
  EXPECT_EQ(changes(training, done, "m2"), Lines{"the gang is done"});
}

TEST(TheStory, SaysWhoGoesAndWhy) {
  const Record before = with({"m1", "m2", "m3"});
  Record after = before;
  after.members[1].leaves_in = Duration(25'400);
  after.members[2].left_out = true;
  EXPECT_EQ(changes(before, after, "m2"),
            (Lines{"m2 leaves in 25 s", "m3 is left out: the others go on without it"}));
  Record later = with({"m3"});
  later.members[0].faults = 2;
  later.members[0].given_back = true;
  EXPECT_EQ(changes(after, later, "m2"),
            (Lines{"m1 is taken for dead by m2", "m2 is a member no more",
                   "m3 was the reason for a round's end, time 2", "m3 is taken back",
                   "m3 is to be given back"}));
}

}  // namespace
}  // namespace spotter::gang
