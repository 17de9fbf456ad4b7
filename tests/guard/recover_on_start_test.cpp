// The files that a trainer finds when it starts, whatever became of the one before.
#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/guard/folder.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

using Settling = Folder;

TEST_F(Settling, TakesWhatWasThereBeforeAnybodyWatched) {
  write("epoch-1.bin", "one");
  write("epoch-2.pt", zip("two"));
  write("epoch-3.pt", zip("three").substr(0, 30));
  const Settled settled = settle();
  EXPECT_EQ(settled.newest, 1U);
  ASSERT_EQ(settled.torn.size(), 1U);
  EXPECT_NE(settled.torn[0].find("epoch-3.pt"), std::string::npos);
  EXPECT_TRUE(exists("epoch-1.bin"));
  EXPECT_FALSE(exists("epoch-3.pt"));
  EXPECT_EQ(set_aside(), 1U);
}

TEST_F(Settling, MovesAsideWhatWasWrittenAndNotRecordedWhenTheMachineWasLost) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("sub/epoch-1.h5", hdf5("one"));
  record(lost, "sub/epoch-1.h5");
  write("sub/epoch-2.h5", hdf5("its length is right, its blocks may not be"));
  write("sub/epoch-3.bin", "half of it");
  const Settled settled = settle();
  EXPECT_EQ(settled.torn.size(), 1U) << "of one moment";
  EXPECT_TRUE(exists("sub/epoch-1.h5"));
  EXPECT_FALSE(exists("sub/epoch-2.h5"));
  EXPECT_FALSE(exists("sub/epoch-3.bin"));
  EXPECT_EQ(settled.name, "sub/epoch-1.h5");
  EXPECT_EQ(settle().torn.size(), 0U) << "once";
}

TEST_F(Settling, TakesWhatAPersonBringsBetweenTwoRuns) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  write("epoch-1.bin", "one");
  record(watched, "epoch-1.bin");
  ASSERT_TRUE(watched.settle(false));
  write("epoch-9.bin", "from elsewhere");
  write("epoch-1.bin", "changed by hand");
  const Settled settled = settle();
  EXPECT_TRUE(settled.torn.empty());
  EXPECT_EQ(read("epoch-1.bin"), "changed by hand");
  EXPECT_TRUE(exists("epoch-9.bin"));
}

TEST_F(Settling, PutsTheLastContentBackWhereItWasOverwrittenInPlace) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  for (const char* content : {"first", "second"}) {
    write("last.bin", content);
    record(lost, "last.bin");
  }
  fs::permissions(path("last.bin"), fs::perms(0640));
  write("last.bin", "thi");  // the machine is lost
  const Settled settled = settle();
  EXPECT_EQ(read("last.bin"), "second");
  EXPECT_EQ(settled.newest, 2U);
  EXPECT_EQ(settled.torn.size(), 1U);
  EXPECT_EQ(set_aside(), 1U);
  const Settled again = settle();
  EXPECT_TRUE(again.torn.empty());
  EXPECT_TRUE(again.said.empty());
}

TEST_F(Settling, PutsBackWhatWasRemovedBeforeItsSuccessorWasWhole) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("epoch-7.bin", "seven");
  record(lost, "epoch-7.bin");
  write("epoch-8.bin", "eig");
  remove("epoch-7.bin");
  settle();
  EXPECT_EQ(read("epoch-7.bin"), "seven");
  EXPECT_FALSE(exists("epoch-8.bin"));
}

TEST_F(Settling, PutsNothingBackThatItsOwnerRemovedInGoodOrder) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  write("epoch-7.bin", "seven");
  record(watched, "epoch-7.bin");
  write("epoch-8.bin", "eight");
  record(watched, "epoch-8.bin");
  remove("epoch-7.bin");
  settle();
  EXPECT_FALSE(exists("epoch-7.bin"));
  EXPECT_EQ(read("epoch-8.bin"), "eight");
}

TEST_F(Settling, FindsARottenByteInTheNewestFileAndPutsItRight) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  write("epoch-1.bin", "good bytes");
  record(watched, "epoch-1.bin");
  ASSERT_TRUE(watched.settle(false));
  const auto time = fs::last_write_time(path("epoch-1.bin"));
  write("epoch-1.bin", "good bXtes");
  fs::last_write_time(path("epoch-1.bin"), time);
  auto record = keeper().record();  // nobody writes a byte that rots
  record.rows[0].changed_ns = found("", *keeper().place().look("epoch-1.bin")).changed_ns;
  const auto own = keeper().place().own();
  ASSERT_TRUE(own->write(record_name, encode(record), 0644));
  const auto proof = keeper().prove();
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->newest, std::nullopt) << "a copy in another zone is not believed";
  EXPECT_EQ(proof->torn.size(), 1U);
  EXPECT_EQ(set_aside(), 0U) << "and left as it is";
  settle();
  EXPECT_EQ(read("epoch-1.bin"), "good bytes");
}

TEST_F(Settling, ProvesACopyAlsoWhenTheOriginalWasLostInTheMiddle) {
  EXPECT_EQ(keeper().prove()->newest, std::nullopt);
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("last.bin", "first");
  record(lost, "last.bin");
  EXPECT_EQ(keeper().prove()->newest, 1U);
  write("last.bin", "sec");
  EXPECT_EQ(keeper().prove()->newest, 1U) << "it was overwritten on the original";
  remove("last.bin");
  EXPECT_EQ(keeper().prove()->newest, 1U) << "or removed there";
}

TEST_F(Settling, GoesOnCountingWhereTheTrainersOwnStepsEnded) {
  std::ofstream(mount_ / ".spotter/ledger.json") << R"({"newest_step": 1000})";
  write("epoch-1.bin", "one");
  EXPECT_EQ(settle().newest, 1001U);
}

TEST_F(Settling, BelievesAZipThatWasNotRecordedWhenEachCrcFits) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("epoch-1.pt", zip("one"));
  lost.learn({{{"epoch-#.pt", 1}}});
  record(lost, "epoch-1.pt");
  write("epoch-2.pt", zip("its CRC-32 proves it"));
  const Settled settled = settle();
  EXPECT_TRUE(settled.torn.empty());
  EXPECT_EQ(settled.name, "epoch-2.pt");
}

TEST_F(Settling, KeepsTheContentsOfTheLastGenerationsAlone) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  for (int i = 0; i < 8; ++i) {
    write("epoch-" + std::to_string(i) + ".bin", "content");
    record(watched, "epoch-" + std::to_string(i) + ".bin");
  }
  // A second name costs nothing, and without it the file would have another time of change.
  const fs::path kept = mount_ / ".spotter" / kept_directory;
  const auto copies = [&kept] {
    return std::ranges::count_if(fs::directory_iterator(kept),
                                 [](const auto& each) { return each.hard_link_count() == 1; });
  };
  EXPECT_LE(copies(), static_cast<std::ptrdiff_t>(kept_generations));
  const auto changed = keeper().place().look("epoch-3.bin")->st_ctim;
  remove("epoch-2.bin");
  write("epoch-8.bin", "content");
  record(watched, "epoch-8.bin");
  EXPECT_LE(copies(), static_cast<std::ptrdiff_t>(kept_generations));
  EXPECT_EQ(keeper().place().look("epoch-3.bin")->st_ctim.tv_nsec, changed.tv_nsec);
}

void record_all(Keeper& keeper) {
  auto captured = keeper.capture([](const std::string&) { return false; });
  ASSERT_TRUE(captured) << captured.error().words;
  ASSERT_TRUE(keeper.finish(*std::move(captured)));
}

// DeepSpeed and Megatron in the folder of an experiment.
TEST_F(Settling, PutsBackTheTrackerThatLiesAboveItsCheckpoints) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("exp/step_10/model.bin", "ten");
  write("exp/latest", "step_10");
  record_all(lost);
  write("exp/step_20/model.bin", "twe");
  write("exp/latest", "step_20");
  settle();
  EXPECT_FALSE(exists("exp/step_20/model.bin"));
  EXPECT_EQ(read("exp/latest"), "step_10");
}

// llm.c finds its newest checkpoint by such a name.
TEST_F(Settling, KeepsTheEmptyMarkOfASaveWithIt) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("model_10.bin", "ten");
  write("DONE_10", "");
  record_all(lost);
  write("model_20.bin", "twe");
  settle();
  EXPECT_TRUE(exists("DONE_10"));
  EXPECT_FALSE(exists("model_20.bin"));
}

TEST_F(Settling, TakesTheFilesAsTheyAreWhenTheRecordIsDamaged) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  write("epoch-1.bin", "one");
  record(watched, "epoch-1.bin");
  fs::resize_file(mount_ / ".spotter/checkpoints.json", 20);
  EXPECT_EQ(keeper().prove()->torn.size(), 1U) << "but such a copy is not believed";
  const Settled settled = settle();
  EXPECT_TRUE(exists("epoch-1.bin"));
  EXPECT_EQ(settled.said.size(), 2U);
}

// Only the record could have said whose they are.
TEST_F(Settling, SetsAsideTheCopiesOfADamagedRecordAndReplacesNothingThere) {
  {
    Keeper lost = keeper();
    ASSERT_TRUE(lost.begin());
    write("last.bin", "tor");
  }
  settle();  // 000001/last.bin
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("last.bin", "whole");
  record(lost, "last.bin");
  write("last.bin", "to");
  fs::resize_file(mount_ / ".spotter/checkpoints.json", 20);
  settle();
  std::multiset<std::string> aside;
  for (const auto& each : fs::recursive_directory_iterator(mount_ / ".spotter" / torn_directory)) {
    if (!each.is_regular_file()) continue;
    std::ifstream file(each.path(), std::ios::binary);
    aside.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  EXPECT_EQ(aside.size(), 3U) << "what was torn before, the copy, the record";
  EXPECT_TRUE(aside.contains("whole"));
  EXPECT_TRUE(aside.contains("tor"));
}

TEST_F(Settling, NeverFollowsALinkOutOfTheStorage) {
  const fs::path outside = mount_.string() + "-outside";
  fs::create_directories(outside);
  std::ofstream(outside / "epoch-1.bin") << "somebody else's";
  fs::create_directory_symlink(outside, path("sub"));
  fs::create_symlink(outside / "epoch-1.bin", path("epoch-2.bin"));
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  const auto captured = lost.capture([](const std::string&) { return false; });
  ASSERT_TRUE(captured);
  ASSERT_EQ(captured->rows.size(), 1U);
  EXPECT_EQ(captured->rows[0].link, (outside / "epoch-1.bin").string()) << "the link itself";
  settle();
  EXPECT_TRUE(fs::exists(outside / "epoch-1.bin"));
  fs::remove_all(outside);
}

}  // namespace
}  // namespace spotter::guard
