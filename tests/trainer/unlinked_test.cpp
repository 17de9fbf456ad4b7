// A file system without hard links (S3 Files, FAT, some FUSE): what would be linked is written.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/trainer/contents.hpp"
#include "tests/trainer/parts.hpp"
#include "tests/trainer/shim.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/saver.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::Call;

constexpr std::array link_refusals = {EPERM, EOPNOTSUPP, ENOSYS, EMLINK, EINVAL, EXDEV};

struct Seen {
  unsigned links = 0;     // were asked for
  unsigned unsynced = 0;  // files renamed with their folder before their sync
};

// Saves steps 1 to 4 with one part that stays the same, where every link fails with `code`.
Seen save_unlinked(const fs::path& directory, int code) {
  Seen seen;
  std::set<std::uint64_t> written;
  test::Shim shim;
  shim.before = [&](const Call& call) {
    if (call.kind == Call::Kind::Write) written.insert(call.node);
    if (call.kind == Call::Kind::Sync) written.erase(call.node);
    if (call.kind == Call::Kind::Rename) seen.unsynced += static_cast<unsigned>(written.size());
    if (call.kind != Call::Kind::Link) return 0;
    ++seen.links;
    return code;
  };
  shim.install(directory.string());
  {
    auto saver = Saver::open({{{directory, {.last = 10}}}, {}});
    EXPECT_TRUE(saver) << saver.error().message;
    for (std::uint64_t step = 1; saver && step <= 4; ++step) {
      const std::string model = "model " + std::to_string(step);
      const std::vector<Source> sources = {{"frozen", {"the same"}}, {"model", {model}}};
      EXPECT_TRUE((*saver)->save(step, sources, {}, std::nullopt));
      EXPECT_TRUE((*saver)->flush());
    }
  }
  shim.remove();
  return seen;
}

TEST(Unlinked, WhatCannotBeLinkedIsWrittenAgain) {
  for (const int code : link_refusals) {
    const test::Scratch scratch;
    const Seen seen = save_unlinked(scratch.path(), code);
    EXPECT_EQ(seen.links, 2U) << "steps 3 and 4 would link what 1 and 2 have";
    EXPECT_EQ(seen.unsynced, 0U) << strerrorname_np(code);
    const std::vector<fs::path> places = {scratch.path()};
    for (std::uint64_t step = 4; step > 0; --step) {
      const auto restored = restore(places);
      ASSERT_TRUE(restored && restored->newest) << strerrorname_np(code);
      const Checkpoint& newest = restored->newest->checkpoint;
      EXPECT_EQ(newest.step, step);
      EXPECT_EQ(read_part(newest, "frozen").value(), "the same");
      EXPECT_EQ(read_part(newest, "model").value(), "model " + std::to_string(step));
      EXPECT_EQ(fs::hard_link_count(newest.path / "frozen"), 1U);
      fs::remove_all(newest.path);
    }
  }
}

}  // namespace
}  // namespace spotter::checkpoint
