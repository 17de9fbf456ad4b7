// A few machines in a world, for stories of them.
#pragma once

#include <gtest/gtest.h>

#include "tests/gang/gang_world.hpp"

namespace spotter::gang {

constexpr Duration seconds(std::int64_t count) { return Duration(count * 1000); }

class Gang : public ::testing::Test {
 protected:
  void begin(std::size_t machines, std::size_t size, std::size_t min) {
    world.emplace(size, min, 1);
    for (std::size_t i = 0; i < machines; ++i) world->arrive();
  }
  // Returns how long it took; fails after `at_most`.
  Duration until_one(Duration at_most) {
    const Time begun = world->now;
    while (!world->is_one() && world->now - begun < at_most) world->turn();
    EXPECT_TRUE(world->is_one());
    return world->now - begun;
  }
  void TearDown() override {
    for (const auto& each : world->broken) ADD_FAILURE() << each;
  }
  Machine& at(std::size_t index) { return *world->machines[index]; }
  std::optional<GangWorld> world;
};

}  // namespace spotter::gang
