#include "agent/launch/price_move.hpp"

#include <gtest/gtest.h>

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;
using Does = PriceStep::Action;
using Spot = WatchMark::Spot;

constexpr Duration settling = 5min;
const InstanceId one("i-00000000000000001"), two("i-00000000000000002");
constexpr auto its_type = "g5.xlarge";

PlaceSeen place_at(const std::string& region, int target, double dollars) {
  return {region, WatchedFleet{FleetId("fleet-" + region), target}, {}, dollars, dollars};
}

// The job is on spot in us-west-2. The watcher looks each minute; what it decides is done at once,
// as agent/tools/launch/watch_moves.cpp does it.
class Prices {
 public:
  Prices() {
    all[0].spot = PlaceSeen::Spot{look_.now - 1h, 0.5, one, its_type};
    all[0].mark = {look_.now, Spot::Runs, look_.now - 1h, {}, {}};
  }

  PriceStep look() {
    look_.now += 1min;
    auto& here = all[place_of_job(all)];
    look_.dollars = here.spot ? here.spot->dollars : 0;
    here.mark = {look_.now, here.spot ? Spot::Runs : Spot::None, look_.now - 1h, {}, {}};
    const PriceStep step = decide_price_move(all, look_, waits, settling);
    auto& there = all[step.to];
    if (step.action == Does::Return) {
      there.own->target = 1;
      there.own->rested.reset();
      there.mark = marks_of_move(*here.mark).entered;
      quiet(here);
    }
    if (step.action == Does::Try || step.action == Does::Go) {
      const auto read = price_note_of(tag_of(step.note));
      EXPECT_TRUE(read && tag_of(*read) == tag_of(step.note)) << tag_of(step.note);
      raise(there, step.note);
    }
    if (step.action == Does::Go) {
      there.mark = marks_of_move(*here.mark).entered;
      quiet(here);
    }
    if (step.action == Does::Withdraw) quiet(there);
    return step;
  }
  // All that is done within so many minutes.
  std::vector<Does> looks(int minutes) {
    std::vector<Does> done;
    for (int i = 0; i < minutes; ++i)
      if (const Does action = look().action; action != Does::None && action != Does::Wait)
        done.push_back(action);
    return done;
  }
  void comes(std::size_t to, double dollars, const std::string& type = its_type) {
    all[to].spot = PlaceSeen::Spot{look_.now, dollars, two, type};
  }
  // Until the job is there.
  void go() {
    look();
    comes(1, 0.1);
    looks(16);
    EXPECT_EQ(where(), "us-east-2");
  }
  void publishes(const InstanceId& instance) {
    look_.publication = Publication{instance, look_.now};
  }
  std::string where() const { return all[place_of_job(all)].region; }

  std::vector<PlaceSeen> all = {place_at("us-west-2", 1, 0.5), place_at("us-east-2", 0, 0.1)};
  PriceLook look_{.now = wire::WallTime(1'764'000'000s),
                  .settled = true,
                  .work = 20,
                  .lasts = 5,
                  .start = 0.25,
                  .slack = 10,
                  .transfer = {}};
  bool waits = true;

 private:
  void raise(PlaceSeen& it, const PriceNote& note) {
    it.own->target = 1;
    it.own->rested.reset();
    // As it is read again, with what the tag has of its figures.
    it.own->note = price_note_of(tag_of(note));
  }
  void quiet(PlaceSeen& it) {
    it.own->target = 0;
    it.own->rested = look_.now;
    it.own->note.reset();
    it.spot.reset();
  }
};

TEST(PriceMove, WhereSpotCostsFarLessAnInstanceIsAskedForFirst) {
  Prices prices;
  const PriceStep step = prices.look();
  EXPECT_EQ(step.action, Does::Try);
  EXPECT_EQ(step.reason,
            "spot costs far less in us-east-2, $0.1 an hour, in us-west-2 $0.5: over 5.0 h that "
            "saves $1.95, after the $0.05 of the move: an instance is asked for there, and the job "
            "goes when "
            "it runs");
  EXPECT_EQ(prices.look().action, Does::Wait);
  EXPECT_EQ(prices.where(), "us-west-2") << "it has no instance there yet";
  prices.comes(1, 0.1);
  EXPECT_EQ(prices.looks(14), std::vector<Does>{}) << "it may not have booted yet";
  EXPECT_EQ(prices.looks(1), std::vector{Does::Go});
  EXPECT_EQ(prices.where(), "us-east-2");
}

TEST(PriceMove, ItDoesNotSwingBack) {
  Prices prices;
  prices.go();
  prices.all[0].of_its_type = 0.02;
  EXPECT_EQ(prices.looks(3 * 60), std::vector<Does>{});
  EXPECT_EQ(prices.looks(80), (std::vector{Does::Try, Does::Withdraw})) << "four hours later";
}

TEST(PriceMove, WithoutAnInstanceThereItStays) {
  Prices prices;
  EXPECT_EQ(prices.looks(4 * 60), (std::vector{Does::Try, Does::Withdraw}));
  EXPECT_EQ(prices.where(), "us-west-2");
  EXPECT_TRUE(prices.all[0].spot);
}

TEST(PriceMove, SwitchedOffItStaysAndGivesUpWhatIsTried) {
  Prices off;
  off.look_.may_move = false;
  EXPECT_EQ(off.looks(60), std::vector<Does>{});
  Prices prices;
  prices.look();
  prices.comes(1, 0.1);
  prices.look_.may_move = false;
  const PriceStep step = prices.look();
  EXPECT_EQ(step.action, Does::Withdraw);
  EXPECT_EQ(step.reason, "the job does not go to us-east-2 after all: launch.price_moves is false");
  EXPECT_EQ(prices.looks(60), std::vector<Does>{});
  EXPECT_EQ(prices.where(), "us-west-2");
}

TEST(PriceMove, SwitchedOffItStillGoesWhereAnInstanceIsWhenItsOwnHasGone) {
  Prices prices;
  prices.look();
  prices.comes(1, 0.1);
  prices.all[0].spot.reset();
  prices.look_.may_move = false;
  EXPECT_EQ(prices.look().action, Does::Go);
}

TEST(PriceMove, ADearPoolThereIsNotEntered) {
  Prices prices;
  prices.look();
  prices.comes(1, 0.45);
  const PriceStep step = prices.look();
  EXPECT_EQ(step.action, Does::Withdraw);
  EXPECT_NE(step.reason.find("after all"), step.reason.npos) << step.reason;
}

// Dollars an hour say nothing of a machine's speed.
TEST(PriceMove, OnlyPoolsOfTheTypeOnWhichItRunsAreCompared) {
  Prices other;
  other.all[1].of_its_type = 0;  // it is at $0.1, of a smaller type
  EXPECT_EQ(other.look().action, Does::None);
  Prices prices;
  prices.look();
  prices.comes(1, 0.1, "g4dn.xlarge");
  const PriceStep step = prices.look();
  EXPECT_EQ(step.action, Does::Withdraw);
  EXPECT_EQ(step.reason,
            "the job does not go to us-east-2 after all: the instance there is a g4dn.xlarge, and "
            "the job runs on a g5.xlarge, so its price says little");
}

TEST(PriceMove, AnyTypeIsTakenWhereTheJobsInstanceHasGone) {
  Prices prices;
  prices.look();
  prices.all[0].spot.reset();
  prices.comes(1, 0.1, "g4dn.xlarge");
  EXPECT_EQ(prices.look().action, Does::Go);
}

// Its place does not answer for a look, or its fleet was given up.
TEST(PriceMove, WhatIsTriedIsNotWhereTheJobIs) {
  Prices prices;
  prices.look();
  prices.all[1].mark = {prices.look_.now - 5h, Spot::None, prices.look_.now - 5h, {}, {}};
  auto silent = prices.all;
  silent[0] = {"us-west-2", {}, {}};
  EXPECT_FALSE(silent[place_of_job(silent)].works()) << "then nothing is decided";
  prices.all[0].own->target = 0;
  EXPECT_EQ(prices.where(), "us-west-2");
  EXPECT_EQ(prices.look().action, Does::None);
}

TEST(PriceMove, AnInstanceThatPublishesNothingIsLeftAgain) {
  Prices prices;
  prices.look_.publication_known = true;
  prices.go();
  prices.publishes(one);  // as it stops
  EXPECT_EQ(prices.looks(23), std::vector<Does>{});
  const PriceStep step = prices.look();
  EXPECT_EQ(step.action, Does::Return);
  EXPECT_EQ(step.reason,
            "the instance i-00000000000000002 in us-east-2 has published nothing since the job "
            "went there at 2025-11-24T16:16:00Z: it goes back to us-west-2");
  EXPECT_EQ(prices.where(), "us-west-2");
  prices.all[0].spot = PlaceSeen::Spot{prices.look_.now, 0.5, one, its_type};
  EXPECT_EQ(prices.looks(3 * 60), std::vector<Does>{}) << "nor is that left for it";
}

TEST(PriceMove, WhatHasPublishedOrCannotBeReadStays) {
  Prices prices;
  prices.look_.publication_known = true;
  prices.go();
  prices.look();
  prices.publishes(two);
  EXPECT_EQ(prices.looks(3 * 60), std::vector<Does>{});
  Prices unread;
  unread.go();
  EXPECT_EQ(unread.looks(3 * 60), std::vector<Does>{});
}

TEST(PriceMove, WhatChannelsBringOverTheBorderIsNotKnown) {
  config::Job job;
  const Committed committed{.bytes = 3e9, .commits = 4, .last_bytes = 5e8, .trained = 2};
  const Transfer transfer = transfer_of(job, committed);
  EXPECT_TRUE(transfer.known);
  EXPECT_DOUBLE_EQ(transfer.home, 3);
  EXPECT_DOUBLE_EQ(transfer.an_hour, 1);
  job.channels.all.emplace_back();
  EXPECT_FALSE(transfer_of(job, committed).known);
}

TEST(PriceMove, OneThatHasGoneMeanwhileIsNotWaitedFor) {
  Prices prices;
  prices.look();
  prices.all[0].spot.reset();
  EXPECT_EQ(prices.look().action, Does::Wait) << "there is none yet";
  prices.comes(1, 0.1);
  EXPECT_EQ(prices.look().action, Does::Go);
}

TEST(PriceMove, OfSeveralItTakesWhatSavesMost) {
  Prices prices;
  prices.all.push_back(place_at("eu-west-1", 0, 0.05));
  prices.all.push_back(place_at("ca-central-1", 0, 0));  // its price is not known
  EXPECT_EQ(prices.look().to, 2u);
}

TEST(PriceMove, ItHasToPay) {
  const auto stays = [](auto change) {
    Prices prices;
    change(prices);
    return prices.look().action == Does::None;
  };
  EXPECT_FALSE(stays([](Prices&) {}));
  EXPECT_TRUE(stays([](Prices& it) { it.all[1].of_its_type = 0.4; })) << "a fifth less";
  EXPECT_TRUE(stays([](Prices& it) { it.look_.work = 0.1; })) << "it is nearly done";
  EXPECT_TRUE(stays([](Prices& it) { it.look_.lasts = 0.1; })) << "what is there is soon lost";
  EXPECT_TRUE(stays([](Prices& it) { it.look_.slack = 0.3; })) << "no time for it";
  EXPECT_TRUE(stays([](Prices& it) { it.look_.transfer.home = 100; })) << "$2 of transfer";
  EXPECT_TRUE(stays([](Prices& it) { it.look_.transfer.an_hour = 15; })) << "checkpoints";
  EXPECT_TRUE(stays([](Prices& it) { it.look_.transfer.known = false; }));
  EXPECT_TRUE(stays([](Prices& it) { it.look_.settled = false; }));
  EXPECT_TRUE(stays([](Prices& it) { it.waits = false; })) << "something else is done";
  EXPECT_TRUE(stays([](Prices& it) { it.all[0].spot->dollars = 0; })) << "not known";
  EXPECT_TRUE(stays([](Prices& it) { it.all[0].own->target = 0; })) << "stopped";
  EXPECT_TRUE(stays([](Prices& it) {
    it.all.push_back({"eu-west-1", {}, {}, 0.1});
  })) << "where a fleet is missing it may have ended";
}

TEST(PriceMove, TransferFromFarRegionsCostsMore) {
  EXPECT_LT(dollars_of_transfer("eu-north-1"), dollars_of_transfer("ap-south-1"));
}

TEST(PriceMove, ATagThatIsNoNoteIsNone) {
  for (const char* tag : {"", "no", "2025-11-24T16:00:00Z", "silent 2025-11-24T16:00:00Z i-1",
                          "tries since=2025-11-24T16:00:00Z from=us-west-2 here=nan there=1 "
                          "hours=1 cost=1 saved=1",
                          "tries since=then from=us-west-2 here=1 there=1 hours=1 cost=1 saved=1"})
    EXPECT_FALSE(price_note_of(tag)) << tag;
}

}  // namespace
}  // namespace spotter::launch
