// Stories of machines that are the reason for a round's end twice, and that a fleet replaces.
#include "agent/gang/participant.hpp"

#include <gtest/gtest.h>

#include "tests/gang/gang_story.hpp"

namespace spotter::gang {
namespace {

struct GivenBack : Gang {
  void begin_on_fleet(std::size_t machines, std::size_t size, std::size_t min,
                      bool replaced = true) {
    world.emplace(size, min, 1);
    world->settings.replaced = replaced;
    for (std::size_t i = 0; i < machines; ++i) world->arrive();
    until_one(seconds(60));
  }
  Machine& machine(const std::string& id) {
    const auto found =
        std::ranges::find(world->machines, id, [](const auto& each) { return each->id; });
    EXPECT_NE(found, world->machines.end()) << id;
    return **found;
  }
  // A rank of that machine hangs; all others' workers are ended.
  void hang(const std::string& id, bool progressed = false) {
    const std::int64_t newest = progressed ? record().progress + 1 : -1;
    machine(id).end = End::Hung;
    for (auto& each : world->machines) each->waits = true;
    run(seconds(30), newest);
  }
  void run(Duration duration, std::int64_t newest = -1) {
    for (const Time end = world->now + duration; world->now < end;) {
      world->progress = newest - 1;
      world->turn();
    }
  }
  bool is_there(const std::string& id) const { return record().find(id) != nullptr; }
  const Record& record() const { return *world->bucket.record; }
};

TEST_F(GivenBack, IsTheMachineOfARankThatHangsTwice) {
  begin_on_fleet(3, 3, 2);
  hang("m2");
  EXPECT_TRUE(is_there("m2"));
  EXPECT_EQ(record().find("m2")->faults, 1U);
  hang("m2");
  EXPECT_FALSE(is_there("m2"));
  EXPECT_EQ(record().ranks, (std::vector<std::string>{"m1", "m3"}));
  EXPECT_EQ(record().given_back, 1U);
  EXPECT_EQ(record().phase, Record::Phase::Training);
}

TEST_F(GivenBack, IsOneThatHungLongAgoToo) {
  begin_on_fleet(3, 3, 2);
  hang("m2", true);
  run(seconds(600), record().progress + 100);
  hang("m2", true);
  EXPECT_FALSE(is_there("m2"));
}

TEST_F(GivenBack, IsNoneOfSeveralThatHangAtOnce) {
  begin_on_fleet(2, 2, 1);
  for (int time = 0; time < 4 && record().members.size() == 2; ++time) {
    machine("m1").end = End::Hung;
    hang("m2", true);
  }
  EXPECT_EQ(record().members.size(), 2U);
  for (const Member& each : record().members) EXPECT_EQ(each.faults, 0U) << each.id;
}

TEST_F(GivenBack, IsNoneThatHungOnceBeforeSeveralRoundsWithNewCheckpoints) {
  begin_on_fleet(3, 3, 2);
  hang("m2", true);
  for (int time = 0; time < 3; ++time) {
    EXPECT_EQ(record().find("m2")->faults, 1U);
    for (auto& each : world->machines) each->waits = true;
    run(seconds(30), record().progress + 1);
  }
  EXPECT_EQ(record().find("m2")->faults, 0U);
  hang("m2", true);
  EXPECT_TRUE(is_there("m2"));
}

// All save because another one comes: that is no sign that the trainer works.
TEST_F(GivenBack, IsOneThatHungBeforeOthersCame) {
  begin_on_fleet(3, 6, 2);
  hang("m2");
  for (int machine = 0; machine < 3; ++machine) {
    world->arrive();
    run(seconds(60), record().progress + 1);
  }
  EXPECT_EQ(record().ranks.size(), 6U);
  hang("m2");
  EXPECT_FALSE(is_there("m2"));
}

TEST_F(GivenBack, AreNoMoreWhereOnlyThoseThatComeMakeNewCheckpoints) {
  begin_on_fleet(2, 2, 1);
  for (int machine = 0; machine < 4; ++machine) {
    const std::string first = record().ranks.front();
    for (int time = 0; time < 2; ++time) hang(first);
    EXPECT_EQ(is_there(first), machine >= 2) << first;
    if (is_there(first)) break;
    world->arrive();
    run(seconds(60), record().progress + 1);
    EXPECT_EQ(record().ranks.size(), 2U);
  }
  EXPECT_EQ(record().given_back, 2U);
}

TEST_F(GivenBack, IsNoneOfTheLastThatAreNeededWhereTheFleetHasNotAll) {
  begin_on_fleet(3, 4, 3);
  for (int time = 0; time < 2; ++time) hang("m2");
  ASSERT_TRUE(is_there("m2"));
  EXPECT_EQ(record().find("m2")->faults, 2U);
  EXPECT_EQ(record().ranks.size(), 3U);
}

TEST_F(GivenBack, IsNoSecondOneBeforeOthersCameForBoth) {
  begin_on_fleet(4, 4, 2);
  for (int time = 0; time < 2; ++time) hang("m4");
  EXPECT_FALSE(is_there("m4"));
  for (int time = 0; time < 2; ++time) hang("m3", true);
  ASSERT_TRUE(is_there("m3"));
  EXPECT_EQ(record().find("m3")->faults, 2U);
  world->arrive();
  run(seconds(60), record().progress + 1);
  EXPECT_FALSE(is_there("m3"));
}

// Its agent starts `spotter gang` again: another member, on the same machine.
TEST_F(GivenBack, IsAlsoOneWhoseProcessWasStartedAgainBetween) {
  begin_on_fleet(3, 3, 2);
  hang("m2");
  Machine& old = machine("m2");
  old.self->go();
  for (int turn = 0; turn < 50 && is_there("m2"); ++turn) world->turn();
  EXPECT_EQ(record().faults.at("m2"), 1U);
  world->kill(old);
  Machine& again = world->arrive();
  Settings its = world->settings;
  its.id = its.address = again.id;
  its.word = "of " + its.id;
  its.name = "m2";
  again.self = std::make_unique<Participant>(its);
  run(seconds(60), record().progress + 1);
  ASSERT_TRUE(is_there(again.id));
  const std::string id = again.id;
  EXPECT_EQ(record().find(id)->faults, 1U);
  EXPECT_TRUE(record().faults.empty());
  hang(id);
  EXPECT_FALSE(is_there(id));
}

TEST_F(GivenBack, IsNoneThatNobodyReplaces) {
  begin_on_fleet(3, 3, 2, false);
  for (int time = 0; time < 2; ++time) hang("m2");
  EXPECT_EQ(record().ranks.size(), 3U);
}

// A gang that always trains with all of its machines waits for the one that the fleet launches.
TEST_F(GivenBack, IsOneWithoutWhichThereAreTooFewForAWhile) {
  begin_on_fleet(3, 3, 3);
  for (int time = 0; time < 2; ++time) hang("m1");
  EXPECT_FALSE(is_there("m1"));
  EXPECT_EQ(record().phase, Record::Phase::Forming);
  const std::uint32_t failures = record().failures;
  world->arrive();
  run(seconds(30));
  EXPECT_EQ(record().ranks, (std::vector<std::string>{"m2", "m3", "m4"}));
  EXPECT_EQ(record().failures, failures) << "what was judged is not judged again";
}

TEST_F(GivenBack, IsNeverTheLast) {
  begin_on_fleet(1, 1, 1);
  for (int time = 0; time < 2; ++time) hang("m1");
  EXPECT_TRUE(is_there("m1"));
}

TEST_F(GivenBack, AreAtMostAsManyAsTheGangHasUntilThereIsANewCheckpoint) {
  begin_on_fleet(2, 2, 1);
  for (int time = 0; time < 3 && record().phase == Record::Phase::Training; ++time)
    hang(record().ranks.front());
  EXPECT_EQ(record().phase, Record::Phase::Failed) << "a hang is a failure, too";
  EXPECT_LE(record().given_back, 2U);
}

TEST_F(GivenBack, IsOneThatMostOthersDoNotReachForLong) {
  begin_on_fleet(3, 3, 2);
  machine("m3").unreachable = true;
  machine("m1").waits = true;
  run(seconds(15));
  EXPECT_TRUE(is_there("m3"));
  run(seconds(120));
  EXPECT_FALSE(is_there("m3"));
  EXPECT_EQ(record().ranks, (std::vector<std::string>{"m1", "m2"}));
}

TEST_F(GivenBack, IsOneThatMostOthersDoNotReachASecondTime) {
  begin_on_fleet(3, 3, 2);
  for (int time = 0; time < 2; ++time) {
    machine("m3").unreachable = true;
    machine("m1").waits = true;
    run(Duration(3'000));
    if (is_there("m3")) machine("m3").unreachable = false;
    run(seconds(60));
  }
  EXPECT_FALSE(is_there("m3"));
}

TEST_F(GivenBack, IsNeitherOfTwoThatDoNotReachEachOther) {
  begin_on_fleet(2, 2, 1);
  machine("m2").unreachable = true;
  machine("m1").waits = true;
  run(seconds(300));
  EXPECT_TRUE(is_there("m1"));
  EXPECT_TRUE(is_there("m2"));
}

TEST_F(GivenBack, IsANewMachineThatWouldElseBeLeftOutAndPaidFor) {
  begin_on_fleet(2, 3, 2);
  world->arrive().unreachable = true;
  run(seconds(120));
  EXPECT_FALSE(is_there("m3"));
  EXPECT_EQ(record().ranks, (std::vector<std::string>{"m1", "m2"}));
}

// Three machines, m3 of them new; in all of m3's rounds one does not reach another.
Record apart_since_m3_came() {
  Record record{.job = "home", .round = 4, .ranks = {"m1", "m2", "m3"}, .apart = 2};
  for (const char* id : {"m1", "m2", "m3"})
    record.members.push_back({.id = id,
                              .name = id,
                              .ready = true,
                              .apart = true,
                              .trained = std::string_view(id) != "m3",
                              .replaced = true});
  record.members.push_back({.id = "m4", .name = "m4", .replaced = true});
  return record;
}

void begin(Record& record) {
  begin_round(record, {.job = "home", .size = 3, .min = 2}, [](const Member&) { return false; });
  record.phase = Record::Phase::Forming;
}

TEST(ANewMachine, IsNotLeftOutWhileAnotherGoesThatItMayFollow) {
  Record record = apart_since_m3_came();
  record.members[3].given_back = true;
  begin(record);
  EXPECT_FALSE(record.find("m3")->left_out);
  EXPECT_FALSE(record.find("m3")->given_back);
  record.members.pop_back();
  for (Member& each : record.members) each.ready = each.apart = true;
  begin(record);
  EXPECT_TRUE(record.find("m3")->given_back);
}

TEST(ANewMachine, ThatWasLeftOutIsGivenBackOnceItMayBe) {
  Record record = apart_since_m3_came();
  record.given_back = 3;
  begin(record);
  EXPECT_TRUE(record.find("m3")->left_out);
  EXPECT_FALSE(record.find("m3")->given_back);
  record.given_back = 0;
  for (Member& each : record.members) each.ready = true;
  begin(record);
  EXPECT_TRUE(record.find("m3")->given_back);
}

}  // namespace
}  // namespace spotter::gang
