// The power is cut before every call by which a file of ours is written, and the disk has any part
// of what was not synced.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/faults/writers.hpp"
#include "tests/trainer/lost_power.hpp"

namespace spotter::test {
namespace {

namespace fs = std::filesystem;

constexpr int generations = 3;

class PowerCut : public testing::TestWithParam<Writer> {
 protected:
  PowerCut() {
    std::string name = (fs::temp_directory_path() / "power-XXXXXX").string();
    place_ = ::mkdtemp(name.data());
  }
  ~PowerCut() override { fs::remove_all(place_); }

  fs::path place_;
};

TEST_P(PowerCut, LeavesTheOldOrTheNewWholeAndTheNextWriterGoesOn) {
  const Writer& writer = GetParam();
  if (!writer.durable) GTEST_SKIP() << "a file of the run directory is gone after a power cut";
  const fs::path disk = place_ / "disk";
  fs::create_directories(disk);
  Recording recording(disk);
  prepare(disk);
  for (int each = 1; each <= generations; ++each) {
    ASSERT_TRUE(writer.write(disk, each));
    recording.acknowledge(static_cast<std::uint64_t>(each));
  }
  recording.stop();
  ASSERT_GT(recording.size(), 10U) << "nothing was recorded";
  for (std::size_t cut = 1; cut <= recording.size(); ++cut) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      std::mt19937_64 random(seed * 1000 + cut);
      const double chance = seed == 0 ? 0.0 : seed == 1 ? 1.0 : 0.5;
      const fs::path after = place_ / "after";
      fs::remove_all(after);
      recording.materialise(cut, {Recording::Model::Journal, chance, true}, random, after);
      prepare(after);
      const auto promised = static_cast<int>(recording.acknowledged(cut));
      const int seen = writer.read(after);
      ASSERT_GE(seen, promised) << "cut " << cut << ", seed " << seed;
      ASSERT_LE(seen, generations) << "cut " << cut << ", seed " << seed;
      ASSERT_TRUE(writer.write(after, seen + 1)) << "cut " << cut << ", seed " << seed;
      ASSERT_EQ(writer.read(after), seen + 1) << "cut " << cut << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfEach, PowerCut, testing::ValuesIn(writers()), [](const auto& each) {
  std::string name = each.param.name;
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace spotter::test
