// Checkpoints that are folders: whole or not at all, wherever a save breaks off.
#include "tests/guard/units.hpp"

#include <fstream>

#include "agent/guard/format.hpp"
#include "agent/guard/guard.hpp"
#include "agent/guard/named.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

class FolderOf : public Units {
 protected:
  struct Form {
    const char* name;
    Steps (*steps)(const FolderOf&, const std::string&);
  };
  static const std::vector<Form>& forms() {
    static const std::vector<Form> all = {
        {"Transformers",
         [](const FolderOf& it, const auto& name) { return it.transformers(name); }},
        {"shards",
         [](const FolderOf& it, const auto& name) { return it.transformers(name, true); }},
        {"DCP", [](const FolderOf& it, const auto& name) { return it.distributed(name); }},
        {"Accelerate", [](const FolderOf& it, const auto& name) { return it.accelerate(name); }}};
    return all;
  }
  void clear() const {
    fs::remove_all(path(""));
    fs::remove_all(mount_ / ".spotter");
    fs::create_directories(path(""));
    fs::create_directories(mount_ / ".spotter");
  }
};

// The trainer is killed after each step of its second save, and the guard takes what it can.
TEST_F(FolderOf, ASaveThatBreaksOffAnywhereIsWholeOrAside) {
  for (const Form& form : forms()) {
    const std::size_t steps = form.steps(*this, "checkpoint-20").size();
    for (std::size_t done = 1; done <= steps; ++done) {
      clear();
      Keeper watched = keeper();
      ASSERT_TRUE(watched.begin());
      run(form.steps(*this, "checkpoint-10"));
      record(watched, "checkpoint-10", Asked::Format);
      run(form.steps(*this, "checkpoint-20"), done);
      auto last = watched.examine_folder("checkpoint-20", Asked::Seal);
      EXPECT_EQ(last.has_value(), done == steps) << form.name << " after " << done;
      if (last) {
        ASSERT_TRUE(watched.finish(*std::move(last)));
      }
      ASSERT_TRUE(watched.settle(false));
      EXPECT_TRUE(exists("checkpoint-10")) << form.name;
      EXPECT_EQ(exists("checkpoint-20"), done == steps) << form.name << " after " << done;
      EXPECT_EQ(set_aside(), done == steps ? 0U : 1U);
      EXPECT_EQ(settle().newest, done == steps ? 20U : 10U) << form.name;
    }
  }
}

// What was not recorded when the machine was lost may lack any of its blocks.
TEST_F(FolderOf, AMachinesLossLeavesOnlyWhatIsRecorded) {
  for (const Form& form : forms()) {
    clear();
    Keeper lost = keeper();
    ASSERT_TRUE(lost.begin());
    run(form.steps(*this, "checkpoint-10"));
    record(lost, "checkpoint-10", Asked::Format);
    run(form.steps(*this, "checkpoint-20"));
    const Settled settled = settle();
    EXPECT_EQ(settled.newest, 10U) << form.name;
    EXPECT_EQ(settled.name, "checkpoint-10");
    EXPECT_FALSE(exists("checkpoint-20"));
    EXPECT_TRUE(fs::is_directory(mount_ / ".spotter/torn/000001-checkpoint-20"));
  }
}

// A folder that is written over is no checkpoint until that is done, though its old end is there.
TEST_F(FolderOf, WritingOverARecordedOneMakesItUnsure) {
  for (const auto& steps : {distributed("checkpoint-10"), transformers("checkpoint-10")}) {
    clear();
    Keeper watched = keeper();
    ASSERT_TRUE(watched.begin());
    run(steps);
    record(watched, "checkpoint-10");
    ::usleep(20'000);  // a later tick of the file system's clock
    run(steps, 4);
    for (const Asked asked : {Asked::Seal, Asked::Likeness, Asked::Format, Asked::Quiet})
      EXPECT_FALSE(watched.examine_folder("checkpoint-10", asked));
    ASSERT_TRUE(watched.settle(false));
    EXPECT_FALSE(exists("checkpoint-10"));
  }
}

TEST_F(FolderOf, WhatNobodyWatchedIsJudgedByItsFormat) {
  for (const Form& form : forms()) {
    clear();
    run(form.steps(*this, "checkpoint-9"));
    run(form.steps(*this, "checkpoint-10"));
    const bool ordered = std::string(form.name) != "Accelerate";
    if (ordered) {
      const auto steps = form.steps(*this, "checkpoint-11");
      run(steps, steps.size() - 1);
    }
    const Settled settled = settle();
    EXPECT_EQ(settled.newest, 10U) << form.name;
    EXPECT_EQ(settled.torn.size(), ordered ? 1U : 0U) << form.name;
    EXPECT_TRUE(settle().said.empty()) << "once";
  }
}

TEST_F(FolderOf, UnknownFilesAreTakenWhenTheyAreQuietOrLikeTheLast) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  write("checkpoint-1/model-1.bin2", "weights");
  EXPECT_EQ(watched.examine_folder("checkpoint-1", Asked::Format).error().why,
            Refusal::Why::Unsure);
  write("checkpoint-1/state-1.txt", "step 1");
  record(watched, "checkpoint-1", Asked::Quiet);
  write("checkpoint-2/model-2.bin2", "weights");
  EXPECT_EQ(watched.examine_folder("checkpoint-2", Asked::Likeness).error().why,
            Refusal::Why::Unsure);
  write("checkpoint-2/state-2.txt", "step 2");
  EXPECT_FALSE(watched.examine_folder("checkpoint-2", Asked::Seal)) << "its end may be missing";
  record(watched, "checkpoint-2", Asked::Likeness);
  EXPECT_EQ(watched.record().newest()->step, 2U);
}

TEST_F(FolderOf, AnUnfinishedNameOrMarkIsNoCheckpoint) {
  run(transformers("checkpoint-1"));
  write("checkpoint-1/checkpoint-is-incomplete.txt", "in progress");
  EXPECT_EQ(keeper().examine_folder("checkpoint-1", Asked::Nothing).error().why,
            Refusal::Why::Torn);
  write("checkpoint-2.orbax-checkpoint-tmp-17/d/array", "x");
  EXPECT_FALSE(keeper().examine_folder("checkpoint-2.orbax-checkpoint-tmp-17", Asked::Nothing));
  write("checkpoint-3/_CHECKPOINT_METADATA", R"({"commit_timestamp_nsecs": null})");
  EXPECT_EQ(keeper().examine_folder("checkpoint-3", Asked::Likeness).error().why,
            Refusal::Why::Unsure);
  write("checkpoint-3/_CHECKPOINT_METADATA", R"({"commit_timestamp_nsecs": 1763976424})");
  EXPECT_TRUE(keeper().examine_folder("checkpoint-3", Asked::Likeness));
}

TEST_F(FolderOf, ARemovedOneIsForgottenAndAHalfRemovedOneIsAside) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  for (const char* name : {"checkpoint-1", "checkpoint-2", "checkpoint-3"}) {
    run(transformers(name));
    record(watched, name);
  }
  fs::remove_all(path("checkpoint-1"));
  remove("checkpoint-2/optimizer.pt");
  const Settled settled = settle();
  EXPECT_EQ(settled.torn.size(), 1U);
  EXPECT_FALSE(exists("checkpoint-2"));
  EXPECT_EQ(settled.newest, 3U);
}

TEST_F(FolderOf, ARottenByteInTheNewestIsFound) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  for (const char* name : {"checkpoint-1", "checkpoint-2"}) {
    run(transformers(name));
    record(watched, name);
  }
  ASSERT_TRUE(watched.settle(false));
  EXPECT_EQ(keeper().prove()->newest, 2U);
  const fs::path file = path("checkpoint-2/model.safetensors");
  const auto time = fs::last_write_time(file);
  write("checkpoint-2/model.safetensors", safetensors("weightz"));
  fs::last_write_time(file, time);
  const auto proof = keeper().prove();
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->torn.size(), 1U);
  EXPECT_EQ(proof->newest, 1U);
  EXPECT_TRUE(exists("checkpoint-2")) << "a copy is left as it is";
  EXPECT_EQ(settle().newest, 1U);
  EXPECT_FALSE(exists("checkpoint-2"));
}

TEST_F(FolderOf, MoreFilesThanWereRecordedAreTakenUp) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  run(transformers("checkpoint-1"));
  record(watched, "checkpoint-1");
  write("checkpoint-1/README.md", "by a callback");
  EXPECT_TRUE(settle().torn.empty());
  EXPECT_EQ(settle().newest, 1U);
  EXPECT_TRUE(settle().said.empty());
}

TEST_F(FolderOf, WhatDeepSpeedNamesAsTheLatestFollows) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  run(distributed("checkpoint-1"));
  record(watched, "checkpoint-1");
  write("latest", "checkpoint-2\n");
  ASSERT_EQ(::chown(path("latest").c_str(), 65534, 65534), 0);
  write("checkpoint-2/mp_rank_00_model_states.pt", "PK\x03\x04 half");
  settle();
  EXPECT_EQ(read("latest"), "checkpoint-1");
  struct stat status {};
  ASSERT_EQ(::stat(path("latest").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 65534U);
}

// What is no checkpoint is refused with a sentence, and left as it is.
TEST_F(FolderOf, OddOnesAreLeftAndSaid) {
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  run(transformers("checkpoint-1"));
  fs::create_symlink("/etc/passwd", path("checkpoint-1/vocab.json"));
  run(transformers("checkpoint-2"));
  ASSERT_EQ(::mkfifo(path("checkpoint-2/model.bin").c_str(), 0644), 0);
  std::string deep = "checkpoint-3";
  for (int i = 0; i < 20; ++i) deep += "/d";
  write(deep + "/file", "x");
  fs::create_directories(path("checkpoint-4"));
  for (std::size_t i = 0; i <= parts_limit; ++i)
    std::ofstream(path("checkpoint-4/" + std::to_string(i)));
  write("checkpoint-5/a\nb", "x");
  fs::create_directory_symlink("/etc", path("checkpoint-6"));
  for (const char* name :
       {"checkpoint-1", "checkpoint-2", "checkpoint-3", "checkpoint-4", "checkpoint-5"}) {
    const auto refused = lost.examine_folder(name, Asked::Nothing);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().why, Refusal::Why::Odd) << name;
    EXPECT_FALSE(refused.error().words.empty());
  }
  EXPECT_FALSE(lost.examine_folder("checkpoint-6", Asked::Nothing));
  const Settled settled = settle();
  EXPECT_EQ(settled.said.size(), 5U);
  EXPECT_EQ(set_aside(), 0U);
}

TEST_F(FolderOf, ALargeJsonIsNotReadWhole) {
  run(transformers("checkpoint-1"));
  write("checkpoint-1/model.safetensors.index.json", "{");
  fs::resize_file(path("checkpoint-1/model.safetensors.index.json"), 200U << 20);
  EXPECT_EQ(keeper().examine_folder("checkpoint-1", Asked::Likeness).error().why,
            Refusal::Why::Unsure);
  write("checkpoint-1/model.safetensors.index.json", std::string(1U << 20, '['));
  EXPECT_EQ(keeper().examine_folder("checkpoint-1", Asked::Nothing).error().why,
            Refusal::Why::Torn);
}

TEST_F(FolderOf, WhatCannotBeReadIsNotMoved) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives up its rights";
  run(transformers("checkpoint-1"));
  settle();
  run(transformers("checkpoint-2"));
  for (const char* name : {"checkpoint-1", "checkpoint-2"}) {
    ASSERT_EQ(::chown(mount_.c_str(), 65534, 65534), 0);
    ASSERT_EQ(::chmod(path(name).c_str(), 0), 0);
    ASSERT_EQ(::seteuid(65534), 0);
    Where as_trainer = where();
    as_trainer.as_trainer = true;
    auto opened = Keeper::open(as_trainer);
    EXPECT_FALSE(opened && opened->settle(true)) << name;
    ASSERT_EQ(::seteuid(0), 0);
    ASSERT_EQ(::chmod(path(name).c_str(), 0755), 0);
    EXPECT_TRUE(exists(name));
  }
  EXPECT_EQ(settle().newest, 2U);
}

TEST_F(FolderOf, SetAsideIsRemovedAsAFolder) {
  for (std::size_t i = 0; i < torn_limit + 2; ++i) {
    Keeper lost = keeper();
    ASSERT_TRUE(lost.begin());
    write("checkpoint-1/sub/half.pt", "half");
    settle();
  }
  EXPECT_EQ(set_aside(), torn_limit + 2);
  std::vector<std::string> said;
  keeper().forget_torn(std::time(nullptr) + torn_seconds + 60, said);
  EXPECT_EQ(set_aside(), torn_limit);
}

// Patterns of files: of a folder that is one checkpoint no single file is moved.
TEST_F(FolderOf, PatternsOfFilesLeaveFoldersAlone) {
  Where files = where();
  files.files = "*.safetensors *.pt *.json";
  files.folders.clear();
  auto lost = Keeper::open(files);
  ASSERT_TRUE(lost && lost->begin());
  run(transformers("checkpoint-1"), 9);
  write("run/adapter_config.json", "{}");
  write("run/adapter_model.safetensors", "torn");
  write("epochs/epoch-1.pt", "torn");
  auto opened = Keeper::open(files);
  const auto settled = opened->settle(true);
  ASSERT_TRUE(settled);
  EXPECT_EQ(settled->torn.size(), 1U) << "epoch-1.pt";
  EXPECT_EQ(settled->said.size(), 1U);
  EXPECT_TRUE(exists("checkpoint-1/optimizer.pt"));
  EXPECT_TRUE(exists("run/adapter_model.safetensors"));
}

TEST_F(FolderOf, TheRecordOfFilesAndTheRecordOfFoldersDoNotMix) {
  run(transformers("checkpoint-1"));
  settle();
  Where files = where();
  files.files = "*.bin";
  files.folders.clear();
  write("epoch-1.bin", "one");
  auto opened = Keeper::open(files);
  ASSERT_TRUE(opened && opened->settle(true));
  EXPECT_EQ(opened->record().files.size(), 1U);
  EXPECT_NE(encode(opened->record()).find("\"format\":1"), std::string::npos);
  EXPECT_EQ(settle().newest, 1U);
  EXPECT_NE(encode(keeper().record()).find("\"format\":2"), std::string::npos);
}

TEST(NamesInAPickle, AreThoseOfAPickleThatIsAllThere) {
  const std::string whole = pickle_of({"__0_0.distcp", "other", "__1_0.distcp"});
  const auto names = names_in_pickle(whole, ".distcp");
  ASSERT_TRUE(names);
  EXPECT_EQ(*names, (std::set<std::string>{"__0_0.distcp", "__1_0.distcp"}));
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(names_in_pickle(whole.substr(0, cut), ".distcp")) << cut;
  EXPECT_FALSE(names_in_pickle("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", ".distcp"));
  EXPECT_TRUE(names_in_index("{}"));
  EXPECT_FALSE(names_in_index(std::string("{}\0", 3))) << "a block that was never written";
  EXPECT_FALSE(names_in_index("\"\""));
  EXPECT_FALSE(names_in_index("[[[["));
  EXPECT_FALSE(names_in_index(std::string(1U << 20, '[')));
}

TEST(TheStep, IsTheNumberThatAFoldersNameEndsWith) {
  EXPECT_EQ(step_in("checkpoint-500"), 500U);
  EXPECT_EQ(step_in("007"), 7U);
  EXPECT_EQ(step_in("checkpoint-best"), std::nullopt);
  EXPECT_EQ(step_in("checkpoint-99999999999999999999"), std::nullopt);
}

class WatchingFolders : public Units {
 protected:
  WatchingFolders()
      : keeper_(keeper()),
        guard_(
            keeper_, [] { return false; },
            [this](const Saying& saying) { said_.push_back(saying); }) {}
  // Until the guard has said so many, or `seconds` have passed.
  std::size_t look_until(std::size_t wanted, int seconds) {
    for (int i = 0; i < seconds * 50 && said_.size() < wanted; ++i) {
      guard_.look();
      ::usleep(20'000);
    }
    return said_.size();
  }
  Keeper keeper_;
  std::vector<Saying> said_;
  Guard guard_;
};

TEST_F(WatchingFolders, OneIsSaidWhenItsLastFileHasBeenQuietForAMoment) {
  ASSERT_TRUE(guard_.begin(false));
  const Steps steps = transformers("checkpoint-500");
  run(steps, steps.size() - 2);
  EXPECT_EQ(look_until(1, 2), 0U);
  run(steps);
  ASSERT_EQ(look_until(1, 30), 1U);
  EXPECT_EQ(said_.back().step, 500U);
  EXPECT_EQ(said_.back().path, path("checkpoint-500").string());
  EXPECT_EQ(keeper().record().newest()->parts.size(), 7U);
  EXPECT_EQ(look_until(2, 2), 1U) << "once";
}

TEST_F(WatchingFolders, AKilledTrainersLastSaveIsTakenIfItIsAllThere) {
  ASSERT_TRUE(guard_.begin(false));
  run(distributed("checkpoint-1"));
  guard_.look();
  run(distributed("checkpoint-2"), 3);
  guard_.end(false);
  EXPECT_TRUE(exists("checkpoint-1"));
  EXPECT_FALSE(exists("checkpoint-2"));
  EXPECT_FALSE(keeper().record().watching);
}

TEST_F(WatchingFolders, OneThatWasBeingRemovedIsNotTaken) {
  ASSERT_TRUE(guard_.begin(false));
  run(transformers("checkpoint-1"));
  guard_.look();
  remove("checkpoint-1/optimizer.pt");
  guard_.end(false);
  EXPECT_FALSE(exists("checkpoint-1"));
}

}  // namespace
}  // namespace spotter::guard
