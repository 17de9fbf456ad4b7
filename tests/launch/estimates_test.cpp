// Values that the watcher of a job with a deadline assumes when it cannot read them now.
#include "agent/launch/deadline.hpp"

#include <gtest/gtest.h>

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;

config::Deadline ten_hours() {
  config::Deadline deadline;
  deadline.work = 10h;
  return deadline;
}

Outlook with(Remaining work) {
  Outlook outlook;
  outlook.work = work;
  return outlook;
}

TEST(WorkOf, ATrainerThatHasJustBegunTakesNothingOfWhatIsLeft) {
  const Published begun{.progress = {.step = 500, .trained = 12}, .stage = "training"};
  const Remaining left = work_of(ten_hours(), begun, with({8, 0.5}), 0.5);
  EXPECT_DOUBLE_EQ(left.hours, 7.5) << "12 h of a work of 10 h were trained";
  EXPECT_NEAR(left.part, 0.47, 0.01);
  const Published quick{.progress = {.step = 500, .trained = 1}, .stage = "training"};
  EXPECT_DOUBLE_EQ(work_of(ten_hours(), quick, with({1, 0.5}), 0.5).hours, 0.5)
      << "by its pace it takes 2 h";
}

TEST(WorkOf, WithoutATotalItIsNeverLessThanBefore) {
  Published silent{.progress = {.trained = 12}, .stage = "training", .has_step = true};
  EXPECT_DOUBLE_EQ(work_of(ten_hours(), silent, with({8, 0.5}), 0.5).hours, 7.5);
  silent.progress.trained = 1;
  EXPECT_DOUBLE_EQ(work_of(ten_hours(), silent, with({8, 0.5}), 0.5).hours, 9);
  EXPECT_GT(work_of(ten_hours(), silent, with({0.1, 0.1}), 5).hours, 0);
}

TEST(WorkOf, IsThatOfTheLookBeforeWhileNothingTrains) {
  const Published booting{.progress = {.trained = 12}, .stage = "attaching"};
  EXPECT_DOUBLE_EQ(work_of(ten_hours(), booting, with({8, 0.5}), 0.5).hours, 8);
  EXPECT_DOUBLE_EQ(work_of(ten_hours(), {}, with({8, 0.5}), 0.5).hours, 8);
  EXPECT_DOUBLE_EQ(work_of(ten_hours(), {}, {}, 0).hours, 10);
}

TEST(WorkOf, WhatAnEarlierRunPublishedSaysNothing) {
  const Published finished{.progress = {.step = 1000, .total = 1000, .trained = 9},
                           .stage = "finished"};
  EXPECT_DOUBLE_EQ(work_of(ten_hours(), of_this_run(finished), {}, 0).hours, 10);
  const Published training{.progress = {.step = 500, .total = 1000, .trained = 9},
                           .stage = "training"};
  EXPECT_DOUBLE_EQ(work_of(ten_hours(), of_this_run(training), {}, 0).hours, 9);
}

TEST(KeepPrices, WhatTheLookBeforeKnewGoesBeforeAGuess) {
  Outlook before;
  before.on_demand = 3;
  before.spot = 1.2;
  before.zone = "us-west-2b";
  Prospect guessed;
  guessed.on_demand = 1;
  guessed.spot = 0.35;
  Prospect it = guessed;
  keep_prices(it, {.on_demand = false, .spot = false}, before);
  EXPECT_DOUBLE_EQ(it.on_demand, 3);
  EXPECT_DOUBLE_EQ(it.spot, 1.2);
  EXPECT_EQ(it.zone, "us-west-2b");
  it = guessed;
  keep_prices(it, {}, before);
  EXPECT_DOUBLE_EQ(it.on_demand, 1);
  EXPECT_DOUBLE_EQ(it.spot, 0.35);
  keep_prices(it, {.on_demand = false, .spot = false}, {});
  EXPECT_DOUBLE_EQ(it.on_demand, 1) << "there is nothing else";
}

}  // namespace
}  // namespace spotter::launch
