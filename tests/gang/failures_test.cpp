// Stories of trainers that fail, and of machines that do not reach one another.
#include "agent/gang/participant.hpp"

#include <gtest/gtest.h>

#include "tests/gang/gang_story.hpp"

namespace spotter::gang {
namespace {

TEST_F(Gang, FailsWhenItsTrainerFailsAgainAndAgain) {
  begin(2, 2, 2);
  world->progress = -1;
  until_one(seconds(5));
  for (int crash = 0; crash < 3; ++crash) {
    for (auto& each : world->machines) each->waits = true;
    for (int turn = 0; turn < 40; ++turn) {
      world->progress = -2;  // it never gets beyond what there is
      world->turn();
    }
  }
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Failed);
  EXPECT_EQ(world->rounds.size(), 3U);
  for (auto& each : world->machines) EXPECT_TRUE(each->self->refuses());
  // The next session of a machine starts over.
  world->machines.clear();
  world->arrive();
  world->arrive();
  world->run(seconds(200));
  EXPECT_EQ(world->rounds.size(), 4U);
}

// Its workers wait for the others' in the kernel or on the GPU, and are ended after the grace.
TEST_F(Gang, WaitsForOneWhoseWorkersHang) {
  begin(3, 3, 2);
  until_one(seconds(5));
  at(2).hangs = true;
  at(2).slow = seconds(10);
  at(0).waits = true;
  world->run(seconds(60));
  EXPECT_EQ(world->rounds.size(), 2U);
  EXPECT_EQ(world->rounds.at(2).size(), 3U);
}

TEST_F(Gang, FailsAlsoWhereARoundHasOtherMachinesThanTheOneBefore) {
  begin(3, 3, 2);
  until_one(seconds(5));
  at(2).hangs = true;
  at(2).slow = seconds(40);  // torchrun hangs, too, and is started again
  for (int turn = 0; turn < 5 * 900; ++turn) {
    if (turn % 200 == 0) at(0).waits = true;
    world->progress = -2;
    world->turn();
  }
  EXPECT_EQ(world->rounds.at(2).size(), 2U);
  EXPECT_EQ(world->rounds.at(3).size(), 3U);
  EXPECT_EQ(world->rounds.at(4).size(), 2U);
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Failed);
}

TEST_F(Gang, LeavesOutANewMachineThatItDoesNotReach) {
  begin(2, 3, 2);
  until_one(seconds(60));
  Machine& unreachable = world->arrive();
  unreachable.unreachable = true;
  world->run(seconds(300));
  const std::vector<std::string> both = {"m1", "m2"};
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Training);
  EXPECT_EQ(world->bucket.record->ranks, both);
  EXPECT_FALSE(at(0).self->must_stop()) << "it joins no more";
  EXPECT_NE(unreachable.self->waits_for().find("go on without it"), std::string::npos);
  const std::uint64_t round = world->bucket.record->round;
  world->run(seconds(600));
  EXPECT_EQ(world->bucket.record->round, round);
  world->arrive();
  world->run(seconds(60));
  EXPECT_EQ(world->bucket.record->ranks, (std::vector<std::string>{"m1", "m2", "m4"}));
}

// As long as the network between its machines is away, its trainer does not fail: it never begins.
TEST_F(Gang, OutlivesANetworkThatIsAwayForLong) {
  begin(3, 3, 2);
  until_one(seconds(5));
  at(1).unreachable = true;
  at(0).waits = true;  // its workers lost a connection
  for (int turn = 0; turn < 5 * 600; ++turn) {
    world->progress = -2;
    world->turn();
  }
  const Record& record = *world->bucket.record;
  EXPECT_NE(record.phase, Record::Phase::Failed);
  EXPECT_GT(record.apart, 5U) << "it is tried again and again";
  EXPECT_LT(record.apart, 35U) << "with pauses";
  EXPECT_LE(record.failures, 1U);
  at(1).unreachable = false;
  until_one(seconds(60));
  world->run(seconds(10));
  EXPECT_TRUE(world->is_one());
}

TEST_F(Gang, FailsWhenItsMachinesNeverReachOneAnother) {
  begin(2, 2, 2);
  at(1).unreachable = true;
  world->run(seconds(3'600));
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Failed);
  EXPECT_TRUE(at(0).self->fell_apart());
  // The next session of a machine starts over.
  world->machines.clear();
  world->arrive();
  world->arrive();
  world->run(seconds(200));
  EXPECT_TRUE(world->is_one());
  EXPECT_EQ(world->bucket.record->apart, 0U);
}

// Who was apart before may fail all the same.
TEST_F(Gang, CountsATrainersFailuresAcrossRoundsThatWereApart) {
  begin(2, 2, 2);
  until_one(seconds(5));
  const auto fail = [&](bool apart) {
    at(1).unreachable = apart;
    for (auto& each : world->machines) each->waits = true;
    for (int turn = 0; turn < 40; ++turn) {
      world->progress = -2;
      world->turn();
    }
  };
  for (const bool apart : {false, true, false, false}) fail(apart);
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Failed);
  EXPECT_FALSE(at(0).self->fell_apart());
}

}  // namespace
}  // namespace spotter::gang
