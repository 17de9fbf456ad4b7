// Checkpoints of a later version of Spotter: refused with a sentence that says so, and nothing is
// moved, replaced or removed, nor is an older one taken in their place.
#include <gtest/gtest.h>

#include <array>

#include "tests/trainer/contents.hpp"
#include "tests/trainer/newer_manifest.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;

Result<fs::path> try_to_save(const fs::path& directory, std::uint64_t step, Retention retention) {
  const std::string model = "model of " + std::to_string(step);
  const std::array<Part, 1> parts = {Part{"model.bin", model}};
  return save(directory, step, parts, {}, retention);
}

class Newer : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::uint64_t step : {1, 2, 3}) {
      ASSERT_TRUE(try_to_save(directory(), step, {.last = 9}));
    }
  }
  template <class T>
  static void expect_sentence(const T& refused) {
    ASSERT_FALSE(refused);
    const std::string& said = refused.error().message;
    for (const char* part : {"step-000000000003", "written by a newer Spotter", "format 2",
                             "this one reads 1", "install that version"}) {
      EXPECT_NE(said.find(part), std::string::npos) << said;
    }
  }
  fs::path directory() const { return scratch_.path(); }
  test::Scratch scratch_;
};

TEST_F(Newer, IsRefusedAndNothingIsTouched) {
  test::make_newer(directory() / directory_name(3));
  const auto before = test::contents(directory());
  expect_sentence(latest(directory()));
  expect_sentence(newest_in(directory()));
  expect_sentence(restore(std::array{directory()}));
  EXPECT_EQ(test::contents(directory()), before);
}

// Its progress would be lost, wherever it lies.
TEST_F(Newer, IsRefusedInAFasterPlaceToo) {
  test::make_newer(directory() / directory_name(3));
  const fs::path durable = directory() / "volume";
  ASSERT_TRUE(try_to_save(durable, 1, {}));
  const auto before = test::contents(directory());
  expect_sentence(restore(std::array{directory(), durable}));
  EXPECT_EQ(test::contents(directory()), before);
}

TEST_F(Newer, IsRemovedByNoRetention) {
  test::make_newer(directory() / directory_name(1));
  for (const std::size_t best : {0, 1}) {
    ASSERT_TRUE(try_to_save(directory(), 4 + best, {.last = 1, .best = best}));
    EXPECT_TRUE(fs::exists(directory() / directory_name(1))) << best;
    EXPECT_FALSE(fs::exists(directory() / directory_name(2))) << best;
  }
}

TEST_F(Newer, IsNotReplacedByOneOfTheSameStep) {
  test::make_newer(directory() / directory_name(3));
  const auto before = test::contents(directory());
  expect_sentence(try_to_save(directory(), 3, {}));
  EXPECT_EQ(test::contents(directory()), before);
}

// A checkpoint that says a later format and is not whole is torn, as ever.
TEST_F(Newer, IsNotTakenForATornOneByItsSum) {
  const fs::path path = directory() / directory_name(3) / "manifest.json";
  std::string bytes = test::read_file(path);
  bytes.replace(bytes.find("\"format\":1"), 10, "\"format\":2");
  test::write_file(path, bytes);
  const auto found = latest(directory());
  ASSERT_TRUE(found && found->newest);
  EXPECT_EQ(found->newest->step, 2U);
  EXPECT_EQ(found->torn.size(), 1U);
}

TEST(NewerManifest, SaysWhichVersionItIs) {
  const auto refused = decode(test::newer_manifest(encode({.step = 7})));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(wire::is_newer(refused.error()));
  const auto damaged = decode("{}");
  ASSERT_FALSE(damaged);
  EXPECT_FALSE(wire::is_newer(damaged.error()));
}

}  // namespace
}  // namespace spotter::checkpoint
