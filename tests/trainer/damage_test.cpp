// Checkpoints that were damaged after they were written: found, moved aside, reported, and never
// resumed from.
#include <gtest/gtest.h>

#include <array>

#include "tests/trainer/parts.hpp"
#include "tests/trainer/scratch.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;

class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::uint64_t step : {1, 2}) {
      // Both have the same length, so that only the sums can tell them apart.
      const std::array<Part, 2> parts = {Part{"a.bin", step == 1 ? "aaaa1" : "aaaa2"},
                                         Part{"b.bin", step == 1 ? "bbbb1" : "bbbb2"}};
      ASSERT_TRUE(save(directory(), step, parts, {{"epoch", 1}}));
    }
    newest_ = directory() / directory_name(2);
  }

  // The newest is refused for `reason`, set aside, and the one before it is taken.
  void expect_fallback(const std::string& reason) {
    EXPECT_FALSE(verify(newest_));
    const auto found = latest(directory());
    ASSERT_TRUE(found && found->newest);
    EXPECT_EQ(found->newest->step, 1U);
    ASSERT_EQ(found->torn.size(), 1U);
    EXPECT_NE(found->torn[0].reason.find(reason), std::string::npos) << found->torn[0].reason;
    EXPECT_EQ(found->torn[0].moved_to, directory() / "torn-step-000000000002");
    EXPECT_TRUE(fs::is_directory(found->torn[0].moved_to));
    EXPECT_TRUE(latest(directory())->torn.empty());
  }

  fs::path directory() const { return scratch_.path(); }
  test::Scratch scratch_;
  fs::path newest_;
};

TEST_F(Damage, ATruncatedPart) {
  fs::resize_file(newest_ / "a.bin", 3);
  expect_fallback("has 3 bytes, not 5");
}

TEST_F(Damage, AnEmptyPartAsAfterAPowerCutWithoutFsync) {
  test::write_file(newest_ / "a.bin", "");
  expect_fallback("has 0 bytes");
}

TEST_F(Damage, AFlippedBitInAPart) {
  test::write_file(newest_ / "a.bin", "aaaa3");
  expect_fallback("wrong sum");
}

TEST_F(Damage, SwappedParts) {
  fs::rename(newest_ / "a.bin", newest_ / "c.bin");
  fs::rename(newest_ / "b.bin", newest_ / "a.bin");
  fs::rename(newest_ / "c.bin", newest_ / "b.bin");
  expect_fallback("wrong sum");
}

TEST_F(Damage, AMissingPart) {
  fs::remove(newest_ / "b.bin");
  expect_fallback("No such file");
}

TEST_F(Damage, AMissingManifest) {
  fs::remove(newest_ / "manifest.json");
  expect_fallback("No such file");
}

TEST_F(Damage, AnEmptyManifest) {
  test::write_file(newest_ / "manifest.json", "");
  expect_fallback("not a manifest");
}

TEST_F(Damage, ADirectoryRenamedToAnotherStep) {
  fs::rename(newest_, directory() / directory_name(9));
  const auto found = latest(directory());
  ASSERT_TRUE(found && found->newest);
  EXPECT_EQ(found->newest->step, 1U);
  ASSERT_EQ(found->torn.size(), 1U);
  EXPECT_NE(found->torn[0].reason.find("says step 2"), std::string::npos);
}

TEST_F(Damage, ALinkInThePlaceOfAPart) {
  test::write_file(directory() / "elsewhere", "aaaa2");
  fs::remove(newest_ / "a.bin");
  fs::create_symlink(directory() / "elsewhere", newest_ / "a.bin");
  expect_fallback("symbolic links");
}

TEST_F(Damage, EverySingleFlippedBitOfTheManifestIsFound) {
  const fs::path path = newest_ / "manifest.json";
  const std::string whole = test::read_file(path);
  ASSERT_TRUE(verify(newest_));
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(decode(flipped)) << "bit " << bit;
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode(std::string_view(whole).substr(0, size))) << size << " bytes of it";
  }
}

TEST_F(Damage, WhenAllAreTornNoneIsTaken) {
  test::write_file(newest_ / "a.bin", "xxxxx");
  test::write_file(directory() / directory_name(1) / "a.bin", "xxxxx");
  const auto found = latest(directory());
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->newest);
  EXPECT_EQ(found->torn.size(), 2U);
}

// To start over is for a person to say, also when they were set aside by an earlier start.
TEST_F(Damage, WhenAllAreTornNothingIsStartedFromScratch) {
  const std::vector<fs::path> places = {directory() / "faster", directory()};
  for (const std::uint64_t step : {1, 2}) {
    test::write_file(directory() / directory_name(step) / "a.bin", "xxxxx");
  }
  for (int start = 0; start < 2; ++start) {
    const auto restored = restore(places);
    ASSERT_FALSE(restored);
    EXPECT_NE(restored.error().message.find("torn-step-000000000002"), std::string::npos)
        << restored.error().message;
  }
  for (const std::uint64_t step : {1, 2}) {
    fs::remove_all(directory() / ("torn-" + directory_name(step)));
  }
  const auto again = restore(places);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->newest);
}

// Checkpoints that die with the machine were never promised to be there.
TEST_F(Damage, TornOnesInAFasterPlaceOnlyAreNoHistory) {
  test::write_file(newest_ / "a.bin", "xxxxx");
  fs::remove_all(directory() / directory_name(1));
  const std::vector<fs::path> places = {directory(), directory() / "volume"};
  const auto restored = restore(places);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_FALSE(restored->newest);
  EXPECT_EQ(restored->torn.size(), 1U);
}

TEST_F(Damage, TheSameStepMayTearTwice) {
  for (int time = 0; time < 2; ++time) {
    test::write_file(newest_ / "a.bin", "xxxxx");
    EXPECT_EQ(latest(directory())->newest->step, 1U);
    ASSERT_TRUE(save(directory(), 2, std::array<Part, 1>{Part{"a.bin", "aaaa2"}}, {}));
  }
  EXPECT_TRUE(fs::is_directory(directory() / "torn-step-000000000002"));
  EXPECT_TRUE(fs::is_directory(directory() / "torn-step-000000000002-1"));
}

TEST_F(Damage, APartThatChangesAfterTheCheckIsNotRead) {
  const auto found = latest(directory());
  ASSERT_TRUE(found && found->newest);
  test::write_file(newest_ / "a.bin", "late!");
  EXPECT_FALSE(read_part(*found->newest, "a.bin"));
}

}  // namespace
}  // namespace spotter::checkpoint
