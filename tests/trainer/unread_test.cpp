// Checkpoints that cannot be read at the moment (a share that does not answer, a disk that fails,
// no permission): nothing is known of them, so they are neither torn nor without a metric.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/trainer/contents.hpp"
#include "tests/trainer/parts.hpp"
#include "tests/trainer/shim.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/writer.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::array codes = {EIO, ESTALE, EACCES, ETIMEDOUT, ENOTCONN, ENFILE};

void make(const fs::path& directory, std::uint64_t step, double metric) {
  auto writer = Writer::begin(directory, step);
  ASSERT_TRUE(writer && add_part(*writer, "model.bin", "m"));
  ASSERT_TRUE(writer->commit({}, metric));
}

// While `unread` cannot be opened, with `code`.
template <class Action>
auto with_unread(const fs::path& unread, int code, const Action& action) {
  test::Shim shim;
  shim.opening = [&](std::string_view path) { return path == unread.string() ? code : 0; };
  shim.install(unread.parent_path().string());
  auto result = action();
  shim.remove();
  return result;
}

std::vector<std::uint64_t> left(const fs::path& directory) { return steps_in(directory).value(); }

TEST(Unread, IsNeitherRemovedNorDoesItCostAnotherItsPlace) {
  using Steps = std::vector<std::uint64_t>;
  for (const int code : codes) {
    const test::Scratch scratch;
    const fs::path& all = scratch.path();
    // One of the two best, 2, cannot be read: 3 may be among them, 1 is not, whatever 2 has.
    for (const auto& [step, metric] : {std::pair{1, 0.1}, {2, 0.9}, {3, 0.5}, {4, 0.8}}) {
      make(all, static_cast<std::uint64_t>(step), metric);
    }
    make(all, 5, 0.0);
    const Retention retention{.last = 1, .best = 2};
    with_unread(all / directory_name(2) / kManifestName, code, [&] {
      apply(retention, all, 5);
      return 0;
    });
    EXPECT_EQ(left(all), (Steps{5, 4, 3, 2})) << strerrorname_np(code);
    apply(retention, all, 5);
    EXPECT_EQ(left(all), (Steps{5, 4, 2})) << strerrorname_np(code);
  }
}

TEST(Unread, IsNotRemovedWhereNoMetricCounts) {
  for (const int code : codes) {
    const test::Scratch scratch;
    for (const std::uint64_t step : {1, 2, 3}) make(scratch.path(), step, 0);
    with_unread(scratch.path() / directory_name(1) / kManifestName, code, [&] {
      apply({.last = 1}, scratch.path(), 3);
      return 0;
    });
    EXPECT_EQ(left(scratch.path()), (std::vector<std::uint64_t>{3, 1})) << strerrorname_np(code);
  }
}

// Neither set aside, nor is an older one taken for it: the run would go back.
TEST(Unread, IsAnErrorAndNoTornCheckpoint) {
  for (const int code : codes) {
    for (const char* file : {"manifest.json", "model.bin"}) {
      const test::Scratch scratch;
      for (const std::uint64_t step : {1, 2}) make(scratch.path(), step, 0);
      const auto before = test::contents(scratch.path());
      const fs::path unread = scratch.path() / directory_name(2) / file;
      const auto look = [&] { return latest(scratch.path()); };
      EXPECT_FALSE(with_unread(unread, code, look)) << file << " " << strerrorname_np(code);
      const auto go_on = [&] { return restore(std::array{scratch.path()}).has_value(); };
      EXPECT_FALSE(with_unread(unread, code, go_on)) << file << " " << strerrorname_np(code);
      EXPECT_EQ(test::contents(scratch.path()), before);
      ASSERT_TRUE(latest(scratch.path()));
      EXPECT_EQ(latest(scratch.path())->newest->step, 2U);
    }
  }
}

TEST(Unread, IsNotReplaced) {
  const test::Scratch scratch;
  make(scratch.path(), 1, 0);
  const auto before = test::contents(scratch.path());
  const auto saved = with_unread(scratch.path() / directory_name(1) / kManifestName, ESTALE, [&] {
    return save(scratch.path(), 1, std::array{Part{"model.bin", "another"}}, {});
  });
  EXPECT_FALSE(saved);
  EXPECT_EQ(test::contents(scratch.path()), before);
}

}  // namespace
}  // namespace spotter::checkpoint
