// Long lives, drawn from a seed: nothing that must hold is ever broken, and when the trouble ends
// all that live train together.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/gang/gang_world.hpp"

namespace spotter::gang {
namespace {

std::string live(std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  const std::size_t size = 1 + draw() % 8;
  const std::size_t min = 1 + draw() % size;
  GangWorld world(size, min, seed);
  for (std::size_t i = 0; i < size; ++i) world.arrive();
  const auto some = [&](double most) {
    return draw() % 3 == 0 ? 0 : most * static_cast<double>(draw() % 1000) / 1000;
  };
  const Chances chances{.lost_requests = some(0.3),
                        .lost_answers = some(0.3),
                        .kills = some(0.01),
                        .notices = some(0.01),
                        .arrivals = some(0.1),
                        .outages = some(0.005),
                        .cuts = some(0.003)};
  world.run(Duration(20 * 60'000), chances);
  if (!world.broken.empty()) return world.broken.front();
  // The trouble ends: who has a notice leaves, the fleet refills, the dead are found out.
  for (std::size_t turn = 0; turn < 3; ++turn) {
    world.run(Duration(30'000));
    while (world.machines.size() < size) world.arrive();
  }
  world.run(Duration(240'000));
  if (!world.broken.empty()) return world.broken.front();
  if (world.is_one()) return {};
  return "it does not come together: " + to_json(*world.bucket.record);
}

TEST(GangLives, EndWell) {
  const char* given = std::getenv("SPOTTER_LIVES");
  const std::uint64_t lives = given == nullptr ? 60 : std::strtoull(given, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= lives; ++seed) {
    const std::string what = live(seed);
    ASSERT_TRUE(what.empty()) << "seed " << seed << ": " << what;
  }
}

}  // namespace
}  // namespace spotter::gang
