// Folders that are whole and that a settling must not take for torn.
#include <sys/stat.h>
#include <unistd.h>

#include "agent/guard/changes.hpp"
#include "tests/guard/units.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

class FoldersLeft : public Units {};

// The switch from `files` to `folders` after a machine was lost, and back.
TEST_F(FoldersLeft, WhatNobodyWatchedStaysWhenJobYamlNamesFoldersInsteadOfFiles) {
  Where files = where();
  files.files = "*.bin";
  files.folders.clear();
  auto lost = Keeper::open(files);
  ASSERT_TRUE(lost && lost->begin());
  run(transformers("checkpoint-1"));
  write("epoch-1.bin", "one");
  const Settled settled = settle();
  EXPECT_TRUE(settled.torn.empty());
  EXPECT_EQ(settled.newest, 1U);
  Keeper again = keeper();
  ASSERT_TRUE(again.begin());
  auto back = Keeper::open(files);
  ASSERT_TRUE(back && back->settle(true));
  EXPECT_TRUE(exists("epoch-1.bin"));
}

TEST_F(FoldersLeft, ANumberThatWasGivenBeforeIsNotGivenAgain) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("../.spotter/torn/000001-checkpoint-1/of-a-settling-that-was-killed", "x");
  write("checkpoint-1/half.pt", "half");
  EXPECT_EQ(settle().torn.size(), 1U);
  EXPECT_EQ(set_aside(), 2U);
}

TEST_F(FoldersLeft, AnOlderOneThatGainedAFileStays) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  for (const char* name : {"checkpoint-1", "checkpoint-2", "checkpoint-3"}) {
    run(transformers(name));
    record(lost, name);
  }
  write("checkpoint-1/pytorch_model.bin", "by zero_to_fp32.py");
  const Settled settled = settle();
  EXPECT_TRUE(settled.torn.empty()) << settled.torn.front();
  EXPECT_EQ(settled.newest, 3U);
  EXPECT_TRUE(exists("checkpoint-1"));
}

TEST_F(FoldersLeft, OneThatWasNotRecordedAndCannotBeReadIsLeft) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives up its rights";
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  run(transformers("checkpoint-1"));
  ASSERT_EQ(::chmod(path("checkpoint-1/trainer_state.json").c_str(), 0), 0);
  fs::path own = mount_ / ".spotter";
  for (const fs::path& each : {mount_, own, own / "kept", own / "torn", own / "checkpoints.json"})
    ASSERT_EQ(::chown(each.c_str(), 65534, 65534), 0) << each;
  ASSERT_EQ(::seteuid(65534), 0);
  Where as_trainer = where();
  as_trainer.as_trainer = true;
  auto opened = Keeper::open(as_trainer);
  const auto settled = opened ? opened->settle(true) : Result<Settled>(failure("not opened"));
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_EQ(settled->said.size(), 1U);
  EXPECT_TRUE(exists("checkpoint-1"));
}

// A callback that runs after the state was written; for a while it might be an older folder that is
// written over.
TEST_F(FoldersLeft, AStaleOneIsTakenOnceItsTrainerHasLeft) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  run(transformers("checkpoint-1"));
  ::usleep(20'000);
  write("checkpoint-1/adapter_model.safetensors", safetensors("adapter"));
  EXPECT_EQ(watched.examine_folder("checkpoint-1", Asked::Quiet).error().why, Refusal::Why::Unsure);
  record(watched, "checkpoint-1", Asked::Nothing);
  EXPECT_EQ(settle().newest, 1U);
}

// A Trainer without save_total_limit that saves every few steps.
TEST_F(FoldersLeft, ThousandsOfThemKeepNothingFromStarting) {
  for (int i = 1; i <= 1200; ++i) {
    const fs::path folder = path("checkpoint-" + std::to_string(i));
    fs::create_directories(folder);
    fs::create_symlink("/etc/passwd", folder / "vocab.json");  // is left alone, so needs no fsync
  }
  run(transformers("checkpoint-1201"));
  const Settled settled = settle();
  EXPECT_EQ(settled.newest, 1201U);
  EXPECT_LT(settled.said.size(), 100U) << "each is a line of the journal";
  EXPECT_EQ(keeper().prove().value_or(Settled()).newest, 1201U);
}

TEST_F(FoldersLeft, ThoseThatWereFoundAreRecordedTogetherAndOnce) {
  for (const char* name : {"checkpoint-1", "checkpoint-2", "checkpoint-3"}) run(transformers(name));
  EXPECT_EQ(settle().said.size(), 3U);
  EXPECT_EQ(keeper().record().files.size(), 3U) << "on the disk";
  EXPECT_EQ(settle().said.size(), 0U);
}

// Orbax's and FSDP's parameters in folders, of many checkpoints.
TEST_F(FoldersLeft, WhereMoreFoldersLieThanAreWatchedTheNewestAre) {
  for (int i = 1; i <= 3; ++i) {
    const std::string name = "checkpoint-" + std::to_string(i);
    run(transformers(name));
    for (int inner = 0; inner < 2000; ++inner)
      fs::create_directories(path(name) / ("p" + std::to_string(inner)));
  }
  const Where at = where();
  const auto place = Place::open(at);
  ASSERT_TRUE(place);
  Changes changes(*place);
  const auto found = changes.watch();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->size(), 3U);
  write("checkpoint-1/an-old-one", "x");
  EXPECT_TRUE(changes.read().empty());
  write("checkpoint-3/p1999/the-newest", "x");
  const auto seen = changes.read();
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.front().name, "checkpoint-3");
  fs::create_directories(path("checkpoint-4"));
  ASSERT_FALSE(changes.read().empty());
  ASSERT_TRUE(changes.watch());
  write("checkpoint-4/next", "x");
  ASSERT_FALSE(changes.read().empty());
}

}  // namespace
}  // namespace spotter::guard
