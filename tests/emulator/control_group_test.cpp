#include "tests/emulator/control_group.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace spotter::emulator {
namespace {
namespace fs = std::filesystem;

TEST(ControlGroup, GoesWithAllBelowItAndLeavesTheNeighbours) {
  if (::geteuid() != 0 || control_groups().empty()) GTEST_SKIP() << "needs root and cgroup2";
  const fs::path world = fs::temp_directory_path() / ("group-test-" + std::to_string(::getpid()));
  const fs::path neighbour = world.string() + "-2";
  const auto one = make_control_group(world / "instances/i-1");
  const auto two = make_control_group(neighbour / "instances/i-1");
  ASSERT_TRUE(one && two);
  fs::create_directories(fs::path(*one) / "payload/system.slice");

  remove_control_groups(world);

  EXPECT_FALSE(fs::exists(*one));
  EXPECT_TRUE(fs::exists(*two));
  remove_control_groups(neighbour);
  EXPECT_FALSE(fs::exists(*two));
}

}  // namespace
}  // namespace spotter::emulator
