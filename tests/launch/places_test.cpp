#include "agent/launch/places.hpp"

#include <gtest/gtest.h>

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;
using Spot = WatchMark::Spot;

const wire::WallTime noon(1'764'000'000s);  // 2025-11-24T16:00:00Z
constexpr Duration patience = 5min;

PlaceSeen place(const std::string& region, int target, double dollars = 0) {
  return {region, WatchedFleet{FleetId("fleet-" + region), target}, {}, dollars};
}

// The watcher looks each minute; what it decides is done at once.
class Places {
 public:
  std::optional<Move> look(Spot spot = Spot::None) {
    now += 1min;
    const std::size_t here = place_of_job(all);
    auto& place = all[here];
    const bool same = place.mark && place.mark->spot == spot;
    const WatchMark mark{now, spot, same ? place.mark->since : now, {}, {}};
    place.mark = mark;
    const auto move = decide_move(all, mark, patience);
    if (!move) return move;
    place.own->rested = now;
    place.own->target = 0;
    all[move->to].own->target = 1;
    all[move->to].own->rested.reset();
    all[move->to].mark = marks_of_move(mark).entered;
    return move;
  }
  std::string where() const { return all[place_of_job(all)].region; }

  std::vector<PlaceSeen> all = {place("us-west-2", 1, 0.3), place("us-east-2", 0, 0.2)};
  wire::WallTime now = noon;
};

TEST(Places, TheJobGoesElsewhereWhenItHasNoSpotInstanceForAWhile) {
  Places places;
  for (int minute = 0; minute < 5; ++minute) EXPECT_FALSE(places.look());
  const auto move = places.look();
  ASSERT_TRUE(move);
  EXPECT_EQ(move->to, 1u);
  EXPECT_EQ(move->reason,
            "no spot instance in us-west-2 since 2025-11-24T16:01:00Z: the job goes to us-east-2, "
            "at $0.2 an hour, where it was not yet");
  EXPECT_EQ(places.where(), "us-east-2");
  for (int minute = 0; minute < 20; ++minute) EXPECT_FALSE(places.look(Spot::Runs)) << "it stays";
}

TEST(Places, ItStaysWhereItsSpotInstanceIs) {
  Places places;
  places.all[1].dollars = 0.01;
  for (int minute = 0; minute < 60; ++minute)
    for (const Spot spot : {Spot::Starts, Spot::Runs}) EXPECT_FALSE(places.look(spot));
}

TEST(Places, OfTwoWithoutCapacityNeitherIsLeftAtOnceAgain) {
  Places places;
  int moves = 0;
  for (int minute = 0; minute < 120; ++minute) moves += places.look() ? 1 : 0;
  EXPECT_GE(moves, 10);
  EXPECT_LE(moves, 13) << "each ten minutes";
}

TEST(Places, OfSeveralTheCheapestIsTakenAndThenTheNext) {
  Places places;
  places.all.push_back(place("eu-west-1", 0, 0.1));
  places.all.push_back(place("eu-north-1", 0));
  const auto next = [&] {
    for (int minute = 0; minute < 20; ++minute)
      if (const auto move = places.look()) return places.all[move->to].region;
    return std::string("none");
  };
  EXPECT_EQ(next(), "eu-west-1");
  EXPECT_EQ(next(), "us-east-2");
  EXPECT_NE(next(), "us-east-2") << "it has just been there";
}

TEST(Places, AJobThatIsStoppedOrRestsDoesNotMove) {
  Places places;
  places.all[0].own->target = 0;
  for (const Spot spot : {Spot::Stopped, Spot::Rests, Spot::None})
    for (int minute = 0; minute < 20; ++minute) EXPECT_FALSE(places.look(spot));
}

TEST(Places, APlaceWithoutAFleetIsNone) {
  Places places;
  places.all[1].own.reset();
  for (int minute = 0; minute < 20; ++minute) EXPECT_FALSE(places.look());
}

TEST(Places, GivenUpInTheSecondPlaceTheJobIsNotInTheFirst) {
  Places places;
  while (!places.look()) {
  }
  places.all[1].own->target = 0;  // by its agent
  EXPECT_EQ(places.where(), "us-east-2") << "or the fleet that was left would be woken";
}

// There it may have ended.
TEST(Places, WhileOneHasNoFleetTheJobGoesToNone) {
  Places places;
  places.all.push_back(place("eu-west-1", 0, 0.1));
  places.all[2].own.reset();
  for (int minute = 0; minute < 20; ++minute) EXPECT_FALSE(places.look());
  EXPECT_EQ(missing_in(places.all), "eu-west-1");
  places.all[1].own.reset();
  EXPECT_EQ(missing_in(places.all), "us-east-2 and eu-west-1");
  places.all[2] = place("eu-west-1", 0, 0.1);
  places.all[1] = place("us-east-2", 0, 0.2);
  EXPECT_EQ(missing_in(places.all), "");
  EXPECT_TRUE(places.look());
}

TEST(Places, OfAJobWithOnePlaceNoneIsMissing) {
  EXPECT_EQ(missing_in({{"us-west-2", {}, {}, 0}}), "");
}

// The watcher ended after the second place had been raised, and before the first one was left.
TEST(Places, AMoveThatWasNotFinishedHasTheJobWhereItWent) {
  Places places;
  while (!places.look()) {
  }
  places.all[0].own->target = 1;
  EXPECT_EQ(places.where(), "us-east-2") << "and the first one is left by the next look";
}

TEST(Places, WhereAFleetWasLeftToRestLaterTheJobIsNot) {
  Places places;
  places.all[0].mark = {noon, Spot::Runs, noon - 1h, {}, {}};
  places.all[1].mark = {noon - 1h, Spot::None, noon - 1h, {}, {}};
  places.all[1].own->rested = noon + 1min;  // it asked beside the first one
  places.all[0].own->target = 0;            // then its agent gave the job up
  EXPECT_EQ(places.where(), "us-west-2") << "or the second one would be woken";
}

TEST(Places, WhatRefusesIsPassedOverForAsLongAsWhatLacksCapacity) {
  Places places;
  const auto refuse = [&](const Move& move) {  // as if nothing had been raised or left
    places.all[0].own = WatchedFleet{FleetId("fleet-us-west-2"), 1};
    places.all[1].own = WatchedFleet{FleetId("fleet-us-east-2"), 0, true, places.now};
    places.all[move.to].mark = marks_of_move(*places.all[0].mark).refused;
  };
  std::optional<Move> move;
  while (!(move = places.look())) {
  }
  refuse(*move);
  EXPECT_EQ(places.where(), "us-west-2");
  places.all[0].own->target = 0;
  EXPECT_EQ(places.where(), "us-west-2") << "given up, it is not where it has not been";
  places.all[0].own->target = 1;
  int minutes = 1;
  while (!places.look()) ++minutes;
  EXPECT_EQ(minutes, 10) << "twice the patience";
}

TEST(Places, OnDemandTheCheapestIsAskedThatDoesNotLackCapacity) {
  std::vector<PaidPlace> places{{true, 0.5, {}}, {true, 0.4, {}}, {false, 0.1, {}}, {true, {}, {}}};
  EXPECT_EQ(place_on_demand(places, 0, noon), 1u);
  places[1].lacked = noon - 10min;
  EXPECT_EQ(place_on_demand(places, 0, noon), 0u);
  places[0].lacked = noon - 5min;
  EXPECT_EQ(place_on_demand(places, 0, noon), 3u) << "its price is not known";
  places[3].lacked = noon;
  EXPECT_EQ(place_on_demand(places, 0, noon), 1u) << "longest ago";
  EXPECT_TRUE(lacks(places[1], noon));
  EXPECT_FALSE(lacks(places[1], noon + 20min));
  EXPECT_EQ(place_on_demand({{false, {}, {}}, {false, {}, {}}}, 1, noon), 1u);
}

TEST(Places, ATagSaysThatNoOnDemandInstanceCame) {
  EXPECT_EQ(lack_of(tag_of_lack(noon)), noon);
  for (const char* tag : {"", "no", "lacks ", "lacks then", "2025-11-24T16:00:00Z"})
    EXPECT_FALSE(lack_of(tag)) << tag;
}

TEST(Places, ATagSaysTheRegionsOfTheJob) {
  const std::string tag = tag_of_regions({"us-west-2", "us-east-2", "eu-west-1"});
  EXPECT_EQ(tag, "us-west-2 us-east-2 eu-west-1");
  EXPECT_EQ(regions_beyond(tag, {"us-east-2"}), "us-west-2 and eu-west-1");
  EXPECT_EQ(regions_beyond(tag, {"us-east-2", "eu-west-1", "us-west-2"}), "");
  EXPECT_EQ(regions_beyond("", {"us-east-2"}), "") << "of a job with one region";
}

}  // namespace
}  // namespace spotter::launch
