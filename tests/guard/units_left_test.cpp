// Folders that are whole and that a settling must not take for torn.
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace
}  // namespace spotter::guard
