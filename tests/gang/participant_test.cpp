// Stories of a few machines.
#include "agent/gang/participant.hpp"

#include <gtest/gtest.h>

#include "tests/gang/gang_story.hpp"

namespace spotter::gang {
namespace {

TEST_F(Gang, BeginsAtOnceWhenAllAreThere) {
  begin(4, 4, 2);
  EXPECT_LE(until_one(seconds(5)), seconds(5));
  EXPECT_EQ(world->rounds.size(), 1U);
}

TEST_F(Gang, WaitsAtTheBeginningForThoseThatMayStillCome) {
  begin(2, 4, 2);
  world->run(seconds(10));
  EXPECT_TRUE(world->rounds.empty());
  world->arrive();
  world->arrive();
  until_one(seconds(5));
  EXPECT_EQ(world->rounds.size(), 1U);
}

TEST_F(Gang, BeginsWithFewerWhenNobodyElseComes) {
  begin(2, 4, 2);
  until_one(seconds(40));
  EXPECT_EQ(world->rounds.at(1).size(), 2U);
}

TEST_F(Gang, NeverTrainsWithLessThanTheLeast) {
  begin(1, 4, 2);
  world->run(seconds(600));
  EXPECT_TRUE(world->rounds.empty());
  EXPECT_EQ(at(0).self->waits_for(), "2 machines at least: 1 is ready");
}

TEST_F(Gang, GoesOnWithoutOneThatHasANotice) {
  begin(4, 4, 2);
  until_one(seconds(5));
  world->notice(at(2), seconds(100));
  world->run(seconds(3));
  // The others know until when they may count on it.
  const auto stop = at(0).self->must_stop();
  EXPECT_FALSE(stop) << "in this world's workers all end at once";
  until_one(seconds(20));
  EXPECT_EQ(world->rounds.size(), 2U);
  EXPECT_EQ(world->rounds.at(2), (std::vector<std::string>{"m1", "m2", "m4"}));
}

TEST_F(Gang, TellsTheOthersUntilWhenALeaverCanBeCountedOn) {
  begin(2, 2, 1);
  until_one(seconds(5));
  Machine& leaver = at(1);
  const Time until = world->now + seconds(60);
  leaver.self->leave(until);
  std::optional<Stop> stop;
  for (int i = 0; i < 20 && !stop; ++i) {
    world->turn();
    stop = at(0).self->must_stop();
  }
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->why, "m2 leaves");
  ASSERT_TRUE(stop->by);
  EXPECT_LE(*stop->by, until) << "never later than the leaver has said";
  EXPECT_GE(*stop->by, until - seconds(3));
}

TEST_F(Gang, SaysWhenALeaverHasLessTimeThanItSaid) {
  begin(1, 1, 1);
  until_one(seconds(5));
  at(0).self->leave(world->now + seconds(60));
  const auto said = [&] { return world->bucket.record->find("m1")->leaves_in; };
  for (int i = 0; i < 20 && !said(); ++i) world->turn();
  ASSERT_GT(said(), seconds(50));
  at(0).self->leave(world->now + seconds(15));
  at(0).self->leave(world->now + seconds(90));  // the soonest counts
  for (int i = 0; i < 20 && said() > seconds(50); ++i) world->turn();
  EXPECT_LE(said(), seconds(15));
}

TEST_F(Gang, HearsWhenALeaverHasLessTimeThanItSaid) {
  begin(2, 2, 1);
  until_one(seconds(5));
  Record record = *world->bucket.record;
  const auto hear = [&](Duration left) {
    record.find("m2")->leaves_in = left;
    at(0).self->looked(world->now, Seen{record, world->bucket.etag()});
    return at(0).self->must_stop()->by.value() - world->now;
  };
  EXPECT_GT(hear(seconds(60)), seconds(50));
  EXPECT_LE(hear(seconds(10)), seconds(10));
  EXPECT_LE(hear(seconds(30)), seconds(10));
}

TEST_F(Gang, GoesOnSoonWithoutOneThatWasKilled) {
  begin(4, 4, 2);
  until_one(seconds(5));
  world->kill(at(0));  // the leader
  world->turn();
  EXPECT_LE(until_one(seconds(30)), seconds(12));
  EXPECT_EQ(world->rounds.at(2), (std::vector<std::string>{"m2", "m3", "m4"}));
}

TEST_F(Gang, WaitsForAllWhereItMay) {
  begin(4, 4, 4);
  until_one(seconds(5));
  world->kill(at(1));
  world->run(seconds(200));
  EXPECT_EQ(world->rounds.size(), 1U);
  world->arrive();
  until_one(seconds(10));
  EXPECT_EQ(world->rounds.size(), 2U);
}

TEST_F(Gang, TakesInOneThatComes) {
  begin(3, 4, 2);
  until_one(seconds(60));
  world->arrive();
  world->run(seconds(2));
  until_one(seconds(20));
  EXPECT_EQ(world->rounds.at(2), (std::vector<std::string>{"m1", "m2", "m3", "m4"}));
}

TEST_F(Gang, KeepsASpareOneWaiting) {
  begin(3, 2, 1);
  world->run(seconds(60));
  EXPECT_EQ(world->rounds.size(), 1U);
  world->kill(at(0));
  world->run(seconds(20));
  EXPECT_EQ(world->bucket.record->ranks, (std::vector<std::string>{"m2", "m3"}));
}

TEST_F(Gang, DropsADeadMemberAfterItsLease) {
  begin(3, 4, 2);
  until_one(seconds(60));
  world->kill(at(2));
  world->run(seconds(30));
  EXPECT_NE(world->bucket.record->find("m3"), nullptr);
  world->run(seconds(90));
  EXPECT_EQ(world->bucket.record->find("m3"), nullptr);
  EXPECT_EQ(world->bucket.record->find("m2")->name, "m2");
}

TEST_F(Gang, TakesNobodyForDeadWhenS3WasSilent) {
  begin(3, 3, 2);
  until_one(seconds(60));
  for (int second = 0; second < 50; ++second) {
    world->bucket.down = true;
    for (auto& each : world->machines) {
      const auto ask = each->self->next(world->now);
      if (ask) each->self->unanswered(world->now);
    }
    world->now += seconds(1);
  }
  for (auto& each : world->machines) EXPECT_FALSE(each->self->must_end(world->now));
  world->run(seconds(60));
  EXPECT_EQ(world->rounds.size(), 1U);
  EXPECT_TRUE(world->is_one());
}

TEST_F(Gang, EndsItsWorkersWhenItCannotRenewItsLease) {
  begin(2, 2, 1);
  until_one(seconds(5));
  Participant& cut = *at(1).self;
  for (int second = 0; second < 59; ++second) {
    EXPECT_FALSE(cut.must_end(world->now)) << second;
    for (int turn = 0; turn < 5; ++turn) {
      if (cut.next(world->now)) cut.unanswered(world->now);
      world->now += Duration(200);
    }
  }
  world->now += seconds(12);
  EXPECT_TRUE(cut.must_end(world->now));
}

TEST_F(Gang, IsDoneWhenItsLeaderIs) {
  begin(3, 3, 2);
  until_one(seconds(5));
  at(1).self->finished();  // does not lead
  world->run(seconds(5));
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Training);
  at(0).self->finished();
  world->run(seconds(5));
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Done);
  for (auto& each : world->machines) EXPECT_TRUE(each->self->is_done());
  Machine& late = world->arrive();
  world->run(seconds(2));
  EXPECT_TRUE(late.self->is_done());
}

// Its trainer completes within its notice: another machine must not train it all again.
TEST_F(Gang, IsDoneThoughItsLeaderHasToLeave) {
  begin(2, 2, 1);
  until_one(seconds(5));
  at(0).self->leave(world->now + seconds(60));
  at(0).self->finished();
  at(0).self->go();
  world->run(seconds(3));
  EXPECT_EQ(world->bucket.record->phase, Record::Phase::Done);
  EXPECT_TRUE(at(0).self->is_gone());
}

TEST_F(Gang, EndsWorkersThatOutliveItByLong) {
  begin(2, 2, 1);
  until_one(seconds(5));
  at(0).self->finished();
  world->run(seconds(100));
  EXPECT_FALSE(at(1).self->must_end(world->now));
  world->run(seconds(300));
  EXPECT_EQ(at(1).self->must_end(world->now), "the gang is done");
}

TEST_F(Gang, ALauncherThatFollowsGetsNoPlaceOfTheOneBefore) {
  Participant self(Settings{.job = "home", .id = "m1", .name = "m1", .address = "a"});
  Time now = Time() + seconds(1000);
  Seen seen;
  self.ready(1, -1);
  for (int i = 0; i < 20; ++i) {
    const auto ask = self.next(now);
    if (ask && std::holds_alternative<Write>(*ask)) {
      seen = {std::get<Write>(*ask).record, std::to_string(i)};
      self.wrote(now, seen.etag);
    } else if (ask) {
      self.looked(now, seen.etag.empty() ? std::nullopt : std::optional(seen));
    }
    now += Duration(100);
  }
  ASSERT_EQ(seen.record.round, 1U);
  self.idle();
  EXPECT_FALSE(self.place());
  self.ready(2, -1);
  EXPECT_FALSE(self.place());
}

TEST_F(Gang, WritesNoNumberThatNobodyReads) {
  Participant self(Settings{.job = "home", .id = "m1", .name = "m1", .address = "a"});
  Time now = Time() + seconds(1000);
  self.looked(now, std::nullopt);
  self.ready(1, INT64_MAX);
  const auto joins = self.next(now);
  const Record begun = std::get<Write>(joins.value()).record;
  EXPECT_TRUE(parse_record(to_json(begun)));
  self.wrote(now, "1");
  now += seconds(60);
  self.looked(now, Seen{begun, "1"});
  self.leave(now + std::chrono::days(30));
  const auto leaves = self.next(now);
  const Record left = std::get<Write>(leaves.value()).record;
  EXPECT_EQ(left.find("m1")->leaves_in, longest_leave);
  EXPECT_LE(left.progress, most_steps);
  EXPECT_TRUE(parse_record(to_json(left)));
}

// A member that could not look meanwhile would else see the beats that it saw last, and think that
// the other one has stood still since.
TEST_F(Gang, OneThatWasDroppedJoinsWithOtherBeatsThanEverBefore) {
  Participant self(Settings{.job = "home", .id = "m1", .name = "m1", .address = "a"});
  Time now = Time() + seconds(1000);
  const Record none{.job = "home"};
  Record record = none;
  std::uint64_t beats = 0;
  for (const bool dropped : {false, false, false, true, false, true}) {
    if (dropped) record = none;
    self.looked(now, Seen{record, "etag"});
    const auto ask = self.next(now);
    ASSERT_TRUE(ask && std::holds_alternative<Write>(*ask));
    record = std::get<Write>(*ask).record;
    EXPECT_GT(record.find("m1")->beats, beats);
    beats = record.find("m1")->beats;
    self.wrote(now, "etag");
    now += seconds(30);
  }
}

TEST_F(Gang, IsDoneThoughAMemberLeftInTheLastMoment) {
  begin(3, 3, 2);
  until_one(seconds(5));
  world->kill(at(2));
  world->bucket.record->members.pop_back();  // who went in order
  world->bucket.record->phase = Record::Phase::Forming;
  ++world->bucket.version;
  at(0).self->finished();
  for (int i = 0; i < 20; ++i) {
    const auto ask = at(0).self->next(world->now);
    if (!ask) break;
    if (const auto* write = std::get_if<Write>(&*ask)) {
      world->bucket.record = write->record;
      at(0).self->wrote(world->now, world->bucket.etag());
    } else {
      at(0).self->looked(world->now, Seen{*world->bucket.record, world->bucket.etag()});
    }
    world->now += seconds(1);
  }
  EXPECT_TRUE(at(0).self->is_done());
}

TEST_F(Gang, TouchesNoRecordOfAnotherJob) {
  begin(1, 1, 1);
  world->bucket.record = Record{.job = "another"};
  world->run(seconds(10));
  EXPECT_TRUE(at(0).self->is_foreign());
  EXPECT_EQ(*world->bucket.record, Record{.job = "another"});
}

Record first_round(const std::vector<std::string>& ranks) {
  Record record{.job = "home", .phase = Record::Phase::Training, .round = 1, .ranks = ranks};
  for (const std::string& id : ranks)
    record.members.push_back({.id = id, .name = id, .address = id, .port = 4000});
  return record;
}

// Its leader, m1, which has its place.
Participant first_of(const Record& record, Time now) {
  Participant self({.job = "home",
                    .id = "m1",
                    .name = "m1",
                    .address = "m1",
                    .size = record.ranks.size(),
                    .min = 2});
  self.ready(4000, -1);
  EXPECT_TRUE(std::holds_alternative<Look>(self.next(now).value()));
  self.looked(now, Seen{record, "1"});
  EXPECT_TRUE(self.place());
  return self;
}

// A round that began and was over before it looked is not that one.
TEST(Participant, SaysOfOneRoundHowItsWorkersEnded) {
  const Time now{seconds(1000)};
  Record record = first_round({"m1", "m2", "m3"});
  Participant self = first_of(record, now);

  self.ready(4001, -1, {.end = End::Torn});
  auto ask = self.next(now);
  EXPECT_EQ(std::get<Write>(ask.value()).record.find("m1")->end, End::Torn);
  self.refused(now);
  ASSERT_TRUE(std::holds_alternative<Look>(self.next(now).value()));
  record.phase = Record::Phase::Forming;
  record.round = 2;
  record.find("m1")->port = 4001;
  record.find("m2")->ready = true;
  self.looked(now, Seen{record, "2"});
  ask = self.next(now);
  EXPECT_TRUE(std::get<Write>(ask.value()).record.find("m1")->ready);
  EXPECT_EQ(std::get<Write>(ask.value()).record.find("m1")->end, End::Other);
}

// Its launcher ended while it waited, and the others began with it all the same.
TEST(Participant, SaysItAlsoOnceOfARoundThatItSawWhileIdle) {
  const Time now{seconds(1000)};
  Record record = first_round({"m1", "m2"});
  Participant self = first_of(record, now);

  self.ready(4001, -1, {.end = End::Hung});
  auto ask = self.next(now);
  EXPECT_EQ(std::get<Write>(ask.value()).record.find("m1")->end, End::Hung);
  self.refused(now);
  self.idle();
  ASSERT_TRUE(std::holds_alternative<Look>(self.next(now).value()));
  record.round = 2;
  record.find("m1")->port = 4001;
  self.looked(now, Seen{record, "2"});
  for (const End said : {End::Other, End::Hung}) {
    self.ready(4002, -1, {.end = said});
    ask = self.next(now);
    const Member* me = std::get<Write>(ask.value()).record.find("m1");
    EXPECT_EQ(me->end, End::Other);
    EXPECT_TRUE(me->apart) << "in that one its workers never began";
    self.refused(now);
    ASSERT_TRUE(std::holds_alternative<Look>(self.next(now).value()));
    self.looked(now, Seen{record, "2"});
  }
}

}  // namespace
}  // namespace spotter::gang
