#include "tests/capacity/trace.hpp"

#include <gtest/gtest.h>

namespace spotter::capacity {
namespace {

TEST(Trace, HoldsUntilTheNextLineAndCapacityThatGoesWithinATickIsNotThere) {
  const auto pool =
      parse_pool("seconds,available,dollars\n0,1,0.9\n3600,0,0.8\n9000,1\n18000,1\n", 1, 0.5);
  ASSERT_TRUE(pool) << pool.error().message;
  EXPECT_EQ(pool->available, (std::vector<bool>{true, false, false, true, true}));
  EXPECT_EQ(pool->dollars, (std::vector<double>{0.9, 0.8, 0.8, 0.5, 0.5}));
}

TEST(Trace, OfSkyPilotsForm) {
  const auto pool = parse_pool(R"({"metadata":{"gap_seconds":1800},"data":[1,2,0,1]})", 0.5, 0.5);
  ASSERT_TRUE(pool) << pool.error().message;
  EXPECT_EQ(pool->available, (std::vector<bool>{true, true, false, true}));
}

TEST(Trace, WhatIsNoneIsRefusedWithItsLine) {
  const auto refused = [](const char* text) {
    const auto pool = parse_pool(text, 1, 0.5);
    return pool ? "" : pool.error().message;
  };
  EXPECT_EQ(refused("0,1,0.9\n3600,maybe\n"), "line 2 is not seconds,available,dollars");
  EXPECT_EQ(refused("0,1,0.9\n3600,1,-1\n"), "line 2 is not seconds,available,dollars");
  EXPECT_EQ(refused("0,1\n0,1\n"), "line 2 is not later than the one before it");
  EXPECT_EQ(refused("0,1\n"), "it has fewer than two points");
  EXPECT_EQ(refused("{\"data\":"), "it is not valid JSON");
  EXPECT_EQ(refused("{\"data\":[1]}"), "there is no gap_seconds, or no data");
}

}  // namespace
}  // namespace spotter::capacity
