// A history has one writer, also where the lock of one that was paused is lost.
#include "trainer/library/writer_lock.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trainer/scratch.hpp"
#include "trainer/library/saver.hpp"

namespace spotter::checkpoint {
namespace {

class InAGang : public ::testing::Test {
 protected:
  InAGang() { ::setenv("SPOTTER_GANG_MEMBER", "m1", 1); }
  ~InAGang() override { ::unsetenv("SPOTTER_GANG_MEMBER"); }

  std::unique_ptr<Saver> open() {
    auto saver = Saver::open({{{directory(), {}}}, {}});
    EXPECT_TRUE(saver) << saver.error().message;
    return saver ? std::move(*saver) : nullptr;
  }
  static Result<void> save(Saver& saver, std::uint64_t step) {
    const std::vector<Source> sources = {{"model", {"weights"}}};
    if (auto taken = saver.save(step, sources, {}, {}); !taken) return taken;
    return saver.flush();
  }
  std::ptrdiff_t checkpoints() const {
    const auto names = list_names(directory());
    EXPECT_TRUE(names);
    return std::ranges::count_if(*names, [](const auto& it) { return it.starts_with("step-"); });
  }
  std::filesystem::path directory() const { return scratch_.path() / "c"; }
  std::filesystem::path claim() const { return directory() / ".writer-of-gang"; }
  test::Scratch scratch_;
};

// On one machine the kernel would not let a second writer have the lock: it writes as that would.
TEST_F(InAGang, AWriterThatAnotherOneHasFollowedCommitsNothingMore) {
  auto first = open();
  ASSERT_TRUE(save(*first, 1));
  EXPECT_TRUE(first->is_writer());
  ASSERT_TRUE(replace_file(claim(), "m2 17-4\n"));
  const auto saved = save(*first, 2);
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("(m2)"), std::string::npos) << saved.error().message;
  EXPECT_FALSE(first->is_writer());
  EXPECT_EQ(checkpoints(), 1);
}

// A leftover of a dead writer, to this machine: the lock on it may be another machine's.
TEST_F(InAGang, AWriterThatAnotherOneHasFollowedTouchesNothing) {
  auto first = open();
  const auto others = directory() / ".tmp-step-000000000009-17";
  std::filesystem::create_directories(others);
  ASSERT_TRUE(replace_file(claim(), "m2 17-4\n"));
  EXPECT_FALSE(save(*first, 2));
  EXPECT_TRUE(std::filesystem::exists(others));
}

TEST_F(InAGang, WhatCannotBeReadIsNotItsOwn) {
  auto first = open();
  ASSERT_TRUE(std::filesystem::remove(claim()));
  EXPECT_FALSE(first->is_writer());
  EXPECT_FALSE(save(*first, 1));
  EXPECT_EQ(checkpoints(), 0);
}

TEST_F(InAGang, WhoTakesTheLockLaterIsTheWriter) {
  open().reset();
  ASSERT_TRUE(replace_file(claim(), "m2 17-4\n"));
  auto later = open();
  EXPECT_TRUE(later->is_writer());
  EXPECT_TRUE(save(*later, 1));
}

TEST(OutsideAGang, ThereIsTheLockAlone) {
  const test::Scratch scratch;
  auto saver = Saver::open({{{scratch.path() / "c", {}}}, {}});
  ASSERT_TRUE(saver);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "c/.writer-of-gang"));
  EXPECT_TRUE((*saver)->is_writer());
}

}  // namespace
}  // namespace spotter::checkpoint
