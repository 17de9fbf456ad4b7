// Saving, finding again, keeping only so many, and what happens when the disk says no.
#include "trainer/library/checkpoint.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/trainer/parts.hpp"
#include "tests/trainer/scratch.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/writer.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

void save_step(const fs::path& directory, std::uint64_t step, Retention retention = {.last = 10}) {
  const std::string model = "model of " + std::to_string(step);
  const std::string optimizer = "optimizer of " + std::to_string(step);
  const std::array<Part, 2> parts = {Part{"model.bin", model}, Part{"optimizer.bin", optimizer}};
  const auto saved = save(directory, step, parts, {{"epoch", step / 10}}, retention);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(*saved, directory / directory_name(step));
}

std::vector<std::string> names(const fs::path& directory) {
  auto listed = list_names(directory);
  if (!listed) return {"error: " + listed.error().message};
  std::erase(*listed, ".writer");
  return *listed;
}

TEST(Checkpoint, WhatWasSavedIsFoundAgainToTheByte) {
  const Scratch scratch;
  const fs::path directory = scratch.path() / "new" / "checkpoints";
  save_step(directory, 12);
  save_step(directory, 34);

  const auto found = latest(directory);
  ASSERT_TRUE(found && found->newest);
  EXPECT_EQ(found->newest->step, 34U);
  EXPECT_EQ(found->newest->path.filename(), "step-000000000034");
  EXPECT_EQ(found->newest->meta, nlohmann::json({{"epoch", 3}}));
  EXPECT_EQ(read_part(*found->newest, "model.bin").value(), "model of 34");
  EXPECT_EQ(read_part(*found->newest, "optimizer.bin").value(), "optimizer of 34");
  EXPECT_FALSE(read_part(*found->newest, "absent.bin"));
  EXPECT_TRUE(found->torn.empty());
}

TEST(Checkpoint, TheManifestIsPlainJsonOfTheDocumentedForm) {
  const Scratch scratch;
  save_step(scratch.path(), 1234);
  const auto json =
      nlohmann::json::parse(test::read_file(scratch.path() / "step-000000001234/manifest.json"));
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["step"], 1234);
  EXPECT_EQ(json["parts"][0]["name"], "model.bin");
  EXPECT_EQ(json["parts"][0]["bytes"], 13);
  EXPECT_EQ(json["parts"][0]["xxh3_128"], sum_of("model of 1234"));
}

// The value of `xxhsum -H2` for the empty input, so that other readers agree with this one.
TEST(Checkpoint, SumsAreThoseOfXxhsum) {
  EXPECT_EQ(sum_of(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Checkpoint, WhereThereIsNoneTheRunStartsFromScratch) {
  const Scratch scratch;
  const auto found = latest(scratch.path() / "absent");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->newest);
}

TEST(Checkpoint, KeepsTheLastOnesAndAlwaysTheOneJustWritten) {
  const Scratch scratch;
  for (const std::uint64_t step : {10, 20, 30, 40}) save_step(scratch.path(), step, {.last = 2});
  EXPECT_EQ(names(scratch.path()),
            (std::vector<std::string>{"step-000000000030", "step-000000000040"}));
  save_step(scratch.path(), 5, {.last = 0});
  EXPECT_EQ(names(scratch.path()), (std::vector<std::string>{"step-000000000005"}));
}

TEST(Checkpoint, SavingTheSameStepAgainReplacesIt) {
  const Scratch scratch;
  save_step(scratch.path(), 7);
  const std::array<Part, 1> parts = {Part{"model.bin", "another"}};
  ASSERT_TRUE(save(scratch.path(), 7, parts, {}));
  const auto found = latest(scratch.path());
  ASSERT_TRUE(found && found->newest);
  EXPECT_EQ(read_part(*found->newest, "model.bin").value(), "another");
  EXPECT_EQ(names(scratch.path()), (std::vector<std::string>{"step-000000000007"}));
}

TEST(Checkpoint, AWriterThatIsDroppedLeavesNothing) {
  const Scratch scratch;
  {
    auto writer = Writer::begin(scratch.path(), 3);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(add_part(*writer, "model.bin", "half"));
    EXPECT_EQ(names(scratch.path()).size(), 1U);
  }
  EXPECT_TRUE(names(scratch.path()).empty());
}

TEST(Checkpoint, LeftoversOfADeadWriterGoAndThoseOfALivingOneStay) {
  const Scratch scratch;
  save_step(scratch.path(), 1);
  const pid_t child = ::fork();
  if (child == 0) {  // dies in the middle, without a chance to tidy up
    auto writer = Writer::begin(scratch.path(), 2);
    if (writer && add_part(*writer, "model.bin", "half")) ::_exit(0);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(names(scratch.path()).size(), 2U);

  auto living = Writer::begin(scratch.path(), 3);
  ASSERT_TRUE(living);
  const auto found = latest(scratch.path());
  ASSERT_TRUE(found && found->newest);
  EXPECT_EQ(found->newest->step, 1U);
  EXPECT_EQ(names(scratch.path()).size(), 2U);
  ASSERT_TRUE(add_part(*living, "model.bin", "whole"));
  ASSERT_TRUE(living->commit({}));
  EXPECT_EQ(latest(scratch.path())->newest->step, 3U);
}

// So many more descriptors can be had, while this lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t left) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const Descriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit few{static_cast<rlim_t>(next.get()) + left, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Checkpoint, WithoutDescriptorsALivingWriterIsLeftAloneAndNothingIsLeftBehind) {
  const Scratch scratch;
  auto living = Writer::begin(scratch.path(), 1);
  ASSERT_TRUE(living);
  ASSERT_TRUE(add_part(*living, "model.bin", "whole"));
  for (rlim_t left = 0; left <= 1; ++left) {
    const FewDescriptors few(left);
    EXPECT_FALSE(save(scratch.path(), 2, std::array<Part, 1>{Part{"model.bin", "x"}}, {}));
    auto other = Writer::begin(scratch.path(), 2);
    EXPECT_FALSE(other && add_part(*other, "model.bin", "x"));
  }
  EXPECT_EQ(names(scratch.path()).size(), 1U) << "the living one's";
  ASSERT_TRUE(living->commit({}));
  EXPECT_EQ(latest(scratch.path())->newest->step, 1U);
}

TEST(Checkpoint, NamesThatCouldLeaveTheDirectoryAreRefused) {
  const Scratch scratch;
  auto writer = Writer::begin(scratch.path(), 1);
  ASSERT_TRUE(writer);
  for (const char* name : {"", "../x", "a/b", ".hidden", "manifest.json", "with space"}) {
    EXPECT_FALSE(add_part(*writer, name, "x")) << name;
  }
  ASSERT_TRUE(add_part(*writer, "a", "x"));
  EXPECT_FALSE(add_part(*writer, "a", "twice"));
  EXPECT_TRUE(writer->commit({}));
}

// A tiny file system of this test's own, unmounted also when an assertion fails.
class TinyDisk {
 public:
  explicit TinyDisk(const fs::path& path) : path_(path) {
    fs::create_directories(path);
    mounted_ = ::mount("none", path.c_str(), "tmpfs", 0, "size=64k") == 0;
  }
  ~TinyDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  bool make_read_only() const {
    return ::mount("none", path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  fs::path path_;
  bool mounted_ = false;
};

TEST(Checkpoint, AFullDiskIsAnErrorThatCostsNoOlderCheckpoint) {
  const Scratch scratch;
  const TinyDisk disk(scratch.path() / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tiny tmpfs needs root";
  const fs::path directory = scratch.path() / "disk" / "checkpoints";
  save_step(directory, 1);
  const std::string large(256 * 1024, 'x');
  const std::array<Part, 1> parts = {Part{"model.bin", large}};
  const auto saved = save(directory, 2, parts, {}, {.last = 1});
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("No space left"), std::string::npos);
  EXPECT_EQ(names(directory), (std::vector<std::string>{"step-000000000001"}));
  EXPECT_EQ(latest(directory)->newest->step, 1U);
}

TEST(Checkpoint, AReadOnlyDiskCanBeResumedFromButNotSavedTo) {
  const Scratch scratch;
  const TinyDisk disk(scratch.path() / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tiny tmpfs needs root";
  const fs::path directory = scratch.path() / "disk";
  save_step(directory, 1);
  save_step(directory, 2);
  test::write_file(directory / "step-000000000002/model.bin", "torn");
  ASSERT_TRUE(disk.make_read_only());
  const auto found = latest(directory);
  ASSERT_TRUE(found && found->newest);
  EXPECT_EQ(found->newest->step, 1U);
  ASSERT_EQ(found->torn.size(), 1U);
  EXPECT_TRUE(found->torn[0].moved_to.empty());
  const auto saved = save(directory, 3, {}, {});
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("Read-only"), std::string::npos);
}

TEST(Checkpoint, NoPermissionIsAnErrorAndNotAStartFromScratch) {
  const Scratch scratch;
  const fs::path directory = scratch.path() / "checkpoints";
  save_step(directory, 1);
  fs::permissions(scratch.path(), fs::perms::all);
  fs::permissions(directory / "step-000000000001/model.bin", fs::perms::none);
  constexpr uid_t kNobody = 65534;
  const uid_t before = ::geteuid();
  if (before == 0) {
    ASSERT_EQ(::seteuid(kNobody), 0);  // root may read everything
  }
  const auto found = latest(directory);
  const bool root = before == 0;
  const auto saved =
      root ? save(directory, 2, {}, {}) : Result<fs::path>(failure("Permission denied"));
  ASSERT_EQ(::seteuid(before), 0);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("Permission denied"), std::string::npos);
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("Permission denied"), std::string::npos);
  EXPECT_EQ(names(directory), (std::vector<std::string>{"step-000000000001"}));
}

}  // namespace
}  // namespace spotter::checkpoint
