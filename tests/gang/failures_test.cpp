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

// It is in the record until its lease is over, and the next round begins long before. On GPUs those
// that are left are aborted by NCCL, as a trainer is that fails.
TEST_F(Gang, CountsNoFailureWhereAMachineWasKilled) {
  begin(3, 3, 2);
  until_one(seconds(5));
  for (int killed = 0; killed < 4; ++killed) {
    world->kill(at(2));
    for (std::size_t i = 0; i < 2; ++i) {
      at(i).end = End::Failed;
      at(i).waits = true;
    }
    for (int turn = 0; turn < 5 * 20; ++turn) {
      world->progress = -2;
      world->turn();
    }
    EXPECT_EQ(world->bucket.record->ranks.size(), 2U);
    EXPECT_EQ(world->bucket.record->failures, 0U);
    world->arrive();
    for (int turn = 0; turn < 5 * 120; ++turn) {
      world->progress = -2;
      world->turn();
    }
    EXPECT_EQ(world->bucket.record->ranks.size(), 3U);
  }
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Training);
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

// Its fleet has as many as it asks for, with the one that was left out, and launches no other.
TEST_F(Gang, TakesBackOneThatItLeftOutWhereTooFewAreLeft) {
  begin(2, 3, 2);
  until_one(seconds(60));
  Machine& left_out = world->arrive();
  left_out.unreachable = true;
  world->run(seconds(300));
  ASSERT_TRUE(world->bucket.record->find("m3")->left_out);
  left_out.unreachable = false;
  world->kill(at(1));
  world->run(seconds(200));
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Forming) << "another one may come";
  EXPECT_TRUE(world->bucket.record->find("m3")->left_out);
  world->run(seconds(300));
  EXPECT_EQ(world->bucket.record->ranks, (std::vector<std::string>{"m1", "m3"}));
  EXPECT_TRUE(world->is_one());
}

// A trainer does not fail while the network between its machines is away: it never begins.
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

// A trainer that was apart before may fail all the same.
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

// The workers of all end, as these say, and there is no new checkpoint.
struct Torn : Gang {
  void end(const std::vector<End>& ends, bool progressed = false) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      at(i).end = ends[i];
      at(i).waits = true;
    }
    const std::int64_t newest = progressed ? record().progress + 1 : -1;
    for (int turn = 0; turn < 150; ++turn) {
      world->progress = newest - 1;
      world->turn();
    }
  }
  const Record& record() const { return *world->bucket.record; }
};

TEST_F(Torn, RoundsAreNoFailureOfTheTrainers) {
  begin(3, 3, 2);
  until_one(seconds(5));
  for (int time = 0; time < 4; ++time) end({End::Torn, End::Other, End::Torn});
  EXPECT_EQ(record().phase, Record::Phase::Training);
  EXPECT_EQ(record().failures, 0U);
  EXPECT_EQ(record().torn, 4U);
}

// All others lose the connection to the one that crashes.
TEST_F(Torn, RoundsHideNoTrainerThatFailsByItself) {
  begin(3, 3, 2);
  until_one(seconds(5));
  for (int time = 0; time < 3; ++time) end({End::Torn, End::Failed, End::Torn});
  EXPECT_EQ(record().phase, Record::Phase::Failed);
  EXPECT_EQ(record().torn, 0U);
  EXPECT_FALSE(at(0).self->fell_apart());
}

TEST_F(Torn, RoundsBetweenFailuresHideNone) {
  begin(2, 2, 2);
  until_one(seconds(5));
  for (const End first : {End::Failed, End::Torn, End::Failed, End::Torn, End::Failed})
    end({first, End::Torn});
  EXPECT_EQ(record().phase, Record::Phase::Failed);
}

// S3 was silent for longer than a lease.
TEST_F(Torn, NorIsARoundAFailureThatAllHadToEnd) {
  begin(2, 2, 2);
  until_one(seconds(5));
  for (int time = 0; time < 5; ++time) end({End::Ended, End::Ended});
  EXPECT_EQ(record().phase, Record::Phase::Training);
  EXPECT_EQ(record().failures, 0U);
  for (int time = 0; time < 3; ++time) end({End::Ended, End::Other});
  EXPECT_EQ(record().phase, Record::Phase::Failed) << "nobody says why that one ended";
}

TEST(AFailure, IsAlsoARoundOfWhichNobodyIsHere) {
  Record record{.job = "home", .round = 3, .ranks = {"m1", "m2"}, .failures = 1};
  for (const char* id : {"m1", "m2", "m3", "m4"})
    record.members.push_back({.id = id, .name = id, .ready = id[1] > '2'});
  begin_round(record, {.job = "home", .size = 2, .min = 2}, [](const Member&) { return false; });
  EXPECT_EQ(record.ranks, (std::vector<std::string>{"m3", "m4"}));
  EXPECT_EQ(record.failures, 2U);
}

// All saved for one that was to join, and left before the next round began.
TEST(AFailure, IsNoRoundThatSavedAndOfWhichNobodySaysThatItFailed) {
  for (const End end : {End::Other, End::Failed}) {
    Record record{.job = "home", .round = 4, .ranks = {"m4"}, .failures = 1, .newest = 45};
    record.members.push_back({.id = "m4", .name = "m4", .ready = true, .end = end});
    begin_round(record, {.job = "home", .size = 2, .min = 1}, [](const Member&) { return false; });
    EXPECT_EQ(record.failures, end == End::Failed ? 1U : 0U);
    EXPECT_EQ(record.progress, 45);
  }
}

// Its own torchrun asked before the round began that made the newest one.
TEST(AMachineThatWaits, JudgesTheRoundByTheNewestCheckpointThatAnotherHasSeen) {
  const Time now = Time(seconds(1000));
  const auto settings = [](const char* id) {
    return Settings{.job = "home", .id = id, .name = id, .size = 3, .min = 2};
  };
  Record record{.job = "home", .phase = Record::Phase::Training, .round = 1, .ranks = {"m1", "m2"}};
  for (const char* id : {"m1", "m2"}) record.members.push_back({.id = id, .name = id});
  const auto written = [&](const char* id, std::int64_t progress) {
    Participant participant(settings(id));
    participant.ready(4000, progress);
    participant.next(now);
    participant.looked(now, Seen{record, "1"});
    const auto ask = participant.next(now);
    EXPECT_TRUE(ask && std::holds_alternative<Write>(*ask));
    return std::get<Write>(*ask).record;
  };
  record = written("m1", 12);
  EXPECT_EQ(record.newest, 12);
  for (const char* id : {"m1", "m2"}) {
    Member& member = *record.find(id);
    member.ready = true;
    member.apart = false;
    member.end = End::Torn;
  }
  record = written("m3", 4);
  EXPECT_EQ(record.round, 2U);
  EXPECT_EQ(record.progress, 12);
  EXPECT_TRUE(record.find("m1")->trained);
  EXPECT_TRUE(record.find("m2")->trained);
  EXPECT_FALSE(record.find("m3")->trained);
}

// Both machines of the round were killed, one before it said that its workers never began, and two
// others come. These have seen neither of them write.
TEST(AMachineThatIsNew, TakesNoneForSlowThatItHasNotSeenToWrite) {
  const auto begins_with = [](bool is_new, bool writes) {
    Time now = Time(seconds(1000));
    Record record{.job = "home", .round = 9, .ranks = {"m1", "m2"}, .failures = 1};
    for (const char* id : {"m1", "m2", "m3"})
      record.members.push_back({.id = id, .name = id, .beats = 7, .ready = id[1] == '3'});
    Participant comes({.job = "home", .id = "m4", .name = "m4", .size = 2, .min = 2});
    const auto look = [&] {
      comes.next(now);
      comes.looked(now, Seen{record, "1"});
    };
    look();
    for (int second = 0; !is_new && second < 10; ++second) {
      now += seconds(1);
      if (writes) record.find("m1")->beats += 1;
      if (writes) record.find("m2")->beats += 1;
      look();
    }
    comes.ready(4000, -1);
    const auto ask = comes.next(now);
    EXPECT_TRUE(ask && std::holds_alternative<Write>(*ask));
    return std::get<Write>(*ask).record;
  };
  EXPECT_EQ(begins_with(true, false).round, 10U);
  EXPECT_EQ(begins_with(true, false).failures, 0U);
  EXPECT_EQ(begins_with(false, false).failures, 0U);
  EXPECT_EQ(begins_with(false, true).failures, 2U) << "they live, and are slow";
}

// A round of one begins with its own write, and its torchrun may be gone before it has the answer.
TEST(AFailure, IsNoRoundWhosePlaceNoLauncherHasHad) {
  const Time now = Time(seconds(1000));
  for (const bool taken : {false, true}) {
    Participant alone({.job = "home", .id = "m1", .name = "m1", .size = 1, .min = 1});
    const auto turn = [&] {
      const auto ask = alone.next(now);
      if (!ask) return;
      if (std::holds_alternative<Write>(*ask))
        alone.wrote(now, "1");
      else
        alone.looked(now, std::nullopt);
    };
    alone.ready(4000, -1);
    for (int i = 0; i < 3; ++i) turn();
    ASSERT_EQ(alone.record().round, 1U);
    const bool has = taken && alone.place().has_value();
    EXPECT_EQ(has, taken);
    alone.idle();
    alone.ready(4001, -1, {.end = End::Failed});
    turn();
    EXPECT_EQ(alone.record().round, 2U);
    EXPECT_EQ(alone.record().failures, taken ? 1U : 0U);
    EXPECT_EQ(alone.record().apart, taken ? 0U : 1U);
  }
}

// NCCL says the same of one machine's own ranks: one of them did not come, say.
TEST_F(Torn, IsNoRoundOfOneMachine) {
  begin(1, 1, 1);
  until_one(seconds(60));
  for (int time = 0; time < 3; ++time) end({End::Torn});
  EXPECT_EQ(record().phase, Record::Phase::Failed);
  EXPECT_EQ(record().torn, 0U);
  EXPECT_FALSE(at(0).self->fell_apart());
}

TEST_F(Torn, AgainAndAgainTheGangHasFailed) {
  begin(2, 2, 2);
  until_one(seconds(5));
  for (int time = 0; time < 5; ++time) end({End::Torn, End::Torn});
  EXPECT_EQ(record().phase, Record::Phase::Training);
  end({End::Torn, End::Torn});
  EXPECT_EQ(record().phase, Record::Phase::Failed);
  EXPECT_TRUE(at(0).self->fell_apart());
}

TEST_F(Torn, ACheckpointBetweenThemBeginsTheCountAgain) {
  begin(2, 2, 2);
  until_one(seconds(5));
  for (int time = 0; time < 20; ++time) end({End::Torn, End::Torn}, true);
  EXPECT_EQ(record().phase, Record::Phase::Training);
  EXPECT_EQ(record().torn, 1U);
}

// The workers connect, and what is larger than a packet never comes through.
TEST_F(Torn, SinceANewMachineCameTheGangGoesOnWithoutIt) {
  begin(2, 3, 2);
  until_one(seconds(60));
  world->arrive();
  until_one(seconds(60));
  for (int time = 0; time < 3; ++time) end({End::Torn, End::Torn, End::Torn});
  EXPECT_EQ(record().ranks, (std::vector<std::string>{"m1", "m2"}));
  EXPECT_EQ(record().phase, Record::Phase::Training);
}

}  // namespace
}  // namespace spotter::gang
