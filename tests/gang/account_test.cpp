// A member's account of its gang.
#include "agent/gang/participant.hpp"

#include <gtest/gtest.h>

#include "tests/gang/gang_world.hpp"

namespace spotter::gang {
namespace {

constexpr Duration so_many_seconds(std::int64_t count) { return Duration(count * 1000); }

struct Reported : ::testing::Test {
  Reported() : world(3, 2, 1) {
    for (int i = 0; i < 3; ++i) world.arrive();
    next_round();
  }
  // Leads to the first machine's account once it is in the next round.
  void next_round() {
    const std::uint64_t before = account.rounds;
    for (int i = 0; i < 1000 && account.rounds == before; ++i) turn();
    EXPECT_EQ(account.rounds, before + 1);
  }
  void turn() {
    world.turn();
    const Machine& first = *world.machines.front();
    account = accountant.look(world.now, *first.self, first.waits && first.asked);
  }
  std::string does(const std::string& name) const {
    const auto found = std::ranges::find(account.by_name, name, &wire::GangReport::Of::name);
    return found == account.by_name.end() ? "" : found->does;
  }
  GangWorld world;
  Accountant accountant;
  wire::GangReport account;
};

TEST_F(Reported, ItsFirstRound) {
  EXPECT_EQ(account.why, "first");
  EXPECT_EQ(account.who, "");
  EXPECT_EQ(account.round, 1U);
  ASSERT_EQ(account.by_name.size(), 3U);
  EXPECT_EQ(account.members, 3U);
  for (const auto& each : account.by_name) EXPECT_EQ(each.does, "trains");
  EXPECT_EQ(account.by_name.front().name, account.leader);
  EXPECT_EQ(account.machines, 3U);
  EXPECT_EQ(account.leader.substr(0, 1), "m");
  EXPECT_EQ(account.waits_for, "");
}

TEST_F(Reported, WhoWasLostAndHowLongItTook) {
  const Time begun = world.now;
  world.kill(*world.machines.back());
  while (account.machines == 3) turn();
  EXPECT_EQ(account.machines, 0U) << "no round is under way";
  while (account.waits_for.find("m3") == std::string::npos &&
         world.now - begun < so_many_seconds(60))
    turn();
  EXPECT_NE(account.waits_for.find("m3"), std::string::npos);
  EXPECT_EQ(does("m3"), "awaited");
  next_round();
  EXPECT_EQ(account.why, "lost");
  EXPECT_EQ(account.who, "m3");
  EXPECT_GT(account.took, 3) << "it was waited for";
  EXPECT_LE(Duration(std::llround(account.took * 1000)), world.now - begun);
  EXPECT_EQ(account.machines, 2U);
  EXPECT_EQ(account.round, 2U);
}

TEST_F(Reported, WhoLeftAndWhoCame) {
  world.notice(*world.machines.back());
  next_round();
  EXPECT_EQ(account.why, "left");
  EXPECT_EQ(account.who, "m3");
  EXPECT_LT(account.took, 10) << "the time in which it still trained is none of it";
  world.arrive();
  next_round();
  EXPECT_EQ(account.why, "joined");
  EXPECT_EQ(account.who, "m4");
}

TEST_F(Reported, TheTimeInRoundsAndBetweenThem) {
  const double between = account.between;
  EXPECT_EQ(account.trained, 0);
  EXPECT_GT(between, 0) << "it waited for the first";
  for (int i = 0; i < 500; ++i) turn();
  EXPECT_EQ(account.trained, 100);
  EXPECT_EQ(account.between, between);
  world.kill(*world.machines.back());
  next_round();
  EXPECT_NEAR(account.between - between, account.took, 1e-6);
}

TEST_F(Reported, ThatItsMachinesDidNotReachOneAnother) {
  Machine& other = *world.machines.back();
  other.unreachable = true;
  other.ends = true;
  other.ends_at = world.now;
  next_round();
  next_round();
  EXPECT_EQ(account.why, "apart");
  EXPECT_EQ(account.who, "");
}

TEST_F(Reported, ThatItsMachinesLostOneAnother) {
  for (auto& each : world.machines) {
    each->end = End::Torn;
    each->ends = true;
    each->ends_at = world.now;
  }
  next_round();
  EXPECT_EQ(account.why, "torn");
  EXPECT_EQ(account.who, "");
}

TEST_F(Reported, ThatNobodyWasTheReason) {
  Machine& other = *world.machines.back();
  other.ends = true;
  other.ends_at = world.now;
  next_round();
  EXPECT_EQ(account.why, "failed");
  EXPECT_EQ(account.who, "");
}

}  // namespace
}  // namespace spotter::gang
