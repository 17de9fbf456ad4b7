// A history has one writer, also where the lock of one that was paused is lost.
#include "trainer/library/writer.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>

#include "tests/trainer/scratch.hpp"
#include "trainer/library/saver.hpp"

namespace {

int stops_after = 0;  // so many locks taken by this process; 0: never

}  // namespace

// That of the C library, and then the process is paused, as its machine may be.
extern "C" int fcntl(int file, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  using Call = int (*)(int, int, ...);
  static const auto real = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "fcntl"));
  const int result = real(file, command, argument);
  if (command == F_SETLK && stops_after > 0 && --stops_after == 0) ::raise(SIGSTOP);
  return result;
}

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
  const auto names = list_names(directory());
  ASSERT_TRUE(names);
  for (const auto& name : *names)
    if (name.starts_with(".writer-")) std::filesystem::remove(directory() / name);
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

TEST_F(InAGang, AWriterLeavesOneClaim) {
  for (int times = 0; times < 3; ++times) open().reset();
  const auto names = list_names(directory());
  ASSERT_TRUE(names);
  const auto is_claim = [](const auto& it) { return it.starts_with(".writer-"); };
  EXPECT_EQ(std::ranges::count_if(*names, is_claim), 1);
}

// A writer does not commit what an earlier one has made and not committed.
TEST_F(InAGang, NothingUnfinishedIsLeftBeforeItIsTheWriter) {
  const auto others = directory() / ".tmp-step-000000000009-17";
  std::filesystem::create_directories(others);
  auto later = open();
  EXPECT_FALSE(std::filesystem::exists(others));
}

// Paused with the lock, before its claim is made or before it has looked at the others'. A server
// of NFS has given its lock away meanwhile: to the kernel here it is that of another file.
TEST_F(InAGang, AClaimThatIsMadeLateReplacesNone) {
  std::filesystem::create_directories(directory());
  for (const int locks : {1, 2}) {
    const pid_t paused = ::fork();
    if (paused == 0) {
      stops_after = locks;
      ::_exit(WriterLock::take(directory()) ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(paused, &status, WUNTRACED), paused);
    ASSERT_TRUE(WIFSTOPPED(status));
    std::filesystem::remove(directory() / ".writer");
    auto follower = open();
    ASSERT_TRUE(save(*follower, static_cast<std::uint64_t>(locks) * 10));
    ::kill(paused, SIGCONT);
    ASSERT_EQ(::waitpid(paused, &status, 0), paused);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "it is no writer";
    EXPECT_TRUE(follower->is_writer());
    EXPECT_TRUE(save(*follower, static_cast<std::uint64_t>(locks) * 10 + 1));
  }
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
