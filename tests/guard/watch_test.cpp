// The guard at work: what is recorded while a trainer writes, and when its writer dies.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "agent/guard/guard.hpp"
#include "tests/guard/folder.hpp"

namespace spotter::guard {
namespace {

class Watching : public Folder {
 protected:
  Watching()
      : keeper_(keeper()),
        guard_(
            keeper_, [this] { return deaths(); },
            [this](const Saying& saying) { said_.push_back(saying); }, [this] { return now_; }) {}

  Deaths deaths() {
    if (lives_ > 0 && --lives_ == 0) died_ = true;
    return {.some = std::exchange(died_, false), .all = nobody_is_left_};
  }
  void begin() {
    const auto begun = guard_.begin(false);
    ASSERT_TRUE(begun) << begun.error().message;
  }
  // Until so many are recorded.
  void wait_for(std::size_t count) {
    for (int i = 0; i < 600 && finished().size() < count; ++i) {
      guard_.look();
      now_ += std::chrono::milliseconds(100);
    }
  }
  std::vector<std::string> finished() const {
    std::vector<std::string> names;
    for (const Saying& saying : said_) {
      if (!saying.path.empty()) names.push_back(saying.path.substr(path("").string().size()));
    }
    return names;
  }
  using Names = std::vector<std::string>;

  bool died_ = false;
  int lives_ = 0;  // at this look for deaths somebody dies
  bool nobody_is_left_ = false;
  Moments::Time now_{std::chrono::hours(1)};
  Keeper keeper_;
  std::vector<Saying> said_;
  Guard guard_;
};

TEST_F(Watching, AFileIsFinishedWhenItIsClosed) {
  begin();
  std::ofstream file(path("epoch-1.bin"));
  file << "the first half, " << std::flush;
  guard_.look();
  EXPECT_EQ(finished(), Names{});
  file << "the second" << std::flush;
  file.close();
  wait_for(1);
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
  EXPECT_EQ(said_.back().finished.step, 1U);
  guard_.look();
  EXPECT_EQ(finished().size(), 1U) << "once";
  EXPECT_EQ(keeper().record().newest()->name, "epoch-1.bin") << "it stands on the disk";
}

TEST_F(Watching, AFileThatIsMovedHereIsFinished) {
  begin();
  write("epoch-1.bin.tmp", "all of it");
  guard_.look();
  EXPECT_EQ(finished(), Names{});
  std::filesystem::rename(path("epoch-1.bin.tmp"), path("epoch-1.bin"));
  wait_for(1);
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
}

TEST_F(Watching, FoldersThatAreMadeLaterAreWatchedToo) {
  begin();
  write("run/version_0/epoch-1.bin", "one");
  wait_for(1);
  EXPECT_EQ(finished(), Names{"run/version_0/epoch-1.bin"});
  write("run/version_0/epoch-2.bin", "two");
  wait_for(2);
  EXPECT_EQ(finished().size(), 2U);
}

// A folder that is made has all looked at: what was closed by then was not written again by that.
TEST_F(Watching, AFolderThatIsMadeIsNoSecondSave) {
  begin();
  for (const char* name : {"save-1/a.bin", "save-1/b.bin", "save-1/deep/c.bin", "save-2/a.bin"}) {
    write(name, "all of it");
    guard_.look();
    now_ += std::chrono::milliseconds(300);
  }
  guard_.look();
  EXPECT_EQ(finished(), (Names{"save-1/a.bin", "save-1/b.bin", "save-1/deep/c.bin"}));
}

// A file is closed after its new folder is watched, and before that is listed.
TEST_F(Watching, AnEventOfWhatWasSeenSinceIsNoSecondWriting) {
  begin();
  write("save-1/a.bin", "all of it");
  guard_.look();
  { const Descriptor same(::open(path("save-1/a.bin").c_str(), O_WRONLY | O_CLOEXEC)); }
  guard_.look();
  now_ += std::chrono::milliseconds(300);
  write("save-2/a.bin", "all of it");
  guard_.look();
  guard_.look();
  EXPECT_EQ(finished(), Names{"save-1/a.bin"});
}

TEST_F(Watching, AFolderThatIsMovedKeepsNothingOfItsOldName) {
  begin();
  write("new/epoch-1.bin", "one");
  wait_for(1);
  std::filesystem::rename(path("new"), path("old"));
  wait_for(2);
  write("old/epoch-2.bin", "two");
  wait_for(3);
  EXPECT_EQ(finished(), (Names{"new/epoch-1.bin", "old/epoch-1.bin", "old/epoch-2.bin"}));
}

TEST_F(Watching, AFileThatSomebodyElseStillWritesIsNotFinished) {
  begin();
  const Descriptor other(::open(path("epoch-1.bin").c_str(), O_WRONLY | O_CREAT, 0644));
  write("epoch-1.bin", "closed by one of two");
  guard_.look();
  EXPECT_EQ(finished(), Names{});
}

TEST_F(Watching, ADatabaseThatIsAlwaysOpenHidesNoCheckpoint) {
  begin();
  write("study.bin", std::string("SQLite format 3\0", 16) + std::string(80, 'x'));
  const Descriptor study(::open(path("study.bin").c_str(), O_WRONLY | O_CLOEXEC));
  write("last.bin", "all of it");
  wait_for(1);
  EXPECT_EQ(finished(), Names{"last.bin"});
  EXPECT_NE(keeper().record().row("study.bin"), nullptr);
}

TEST_F(Watching, ATornFileIsSaidOnceAndNotRecorded) {
  begin();
  for (const char* name : {"epoch-1.pt", "epoch-1.pt", "epoch-2.pt"}) {
    const bool last = std::string_view(name) == "epoch-2.pt";
    write(name, last ? zip("two") : zip("one").substr(0, 40));
    wait_for(last ? 1 : 0);
    guard_.look();
  }
  EXPECT_EQ(finished(), Names{"epoch-2.pt"});
  EXPECT_EQ(said_.size(), 2U);
}

// The kernel closes a killed writer's files as if it had closed them itself.
TEST_F(Watching, AFileClosedByItsWritersDeathIsMovedAside) {
  begin();
  write("epoch-1.bin", "one");
  wait_for(1);
  write("epoch-2.bin", "half of tw");
  died_ = true;
  guard_.look();
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
  guard_.end(End::Killed, true);
  EXPECT_TRUE(exists("epoch-1.bin"));
  EXPECT_FALSE(exists("epoch-2.bin"));
  EXPECT_FALSE(keeper().record().watching);
}

TEST_F(Watching, ADeathThatIsSeenOnlyAtTheEndCountsToo) {
  begin();
  write("epoch-1.h5", hdf5("flushed, and then killed"));
  died_ = true;
  guard_.end(End::Killed, true);
  EXPECT_FALSE(exists("epoch-1.h5"));
}

TEST_F(Watching, WhatItsOwnEndSealsIsBelievedAlsoThen) {
  begin();
  write("epoch-1.pt", zip("one"));
  wait_for(1);
  write("epoch-2.pt", zip("two"));
  died_ = true;
  guard_.end(End::Killed, true);
  EXPECT_TRUE(exists("epoch-2.pt"));
  EXPECT_EQ(finished(), (Names{"epoch-1.pt", "epoch-2.pt"}));
}

TEST_F(Watching, ATrainerThatLeftByItselfHadFinishedItsFiles) {
  begin();
  write("epoch-1.bin", "one");
  died_ = true;  // its data loaders, at the end
  guard_.end(End::Finished, true);
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
  EXPECT_TRUE(exists("epoch-1.bin"));
}

// The processes of a killed trainer may take long to go, and its end is reported after that.
TEST_F(Watching, ADeathIsRememberedUntilTheEndIsReported) {
  begin();
  write("epoch-1.bin", "one");
  wait_for(1);
  write("epoch-2.bin", "half of tw");
  died_ = nobody_is_left_ = true;
  for (int i = 0; i < 50; ++i, now_ += std::chrono::milliseconds(100)) guard_.look();
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
  guard_.end(End::Killed, true);
  EXPECT_FALSE(exists("epoch-2.bin"));
}

// A new folder is looked at by its names, as its events may be older than its watch.
TEST_F(Watching, ADeathWhileFoldersAreLookedAtIsSeen) {
  begin();
  write("epoch-1.bin", "one");
  wait_for(1);
  std::filesystem::create_directory(path("later"));
  write("later/epoch-2.bin", "half of tw");
  lives_ = 2;
  guard_.look();
  guard_.end(End::Killed, true);
  EXPECT_FALSE(exists("later/epoch-2.bin"));
}

// A file that is open when it is looked at is closed by a death that was seen with that look.
TEST_F(Watching, ADeathThatWasSeenBeforeItsCloseCounts) {
  begin();
  write("epoch-1.bin", "one");
  wait_for(1);
  std::ofstream file(path("epoch-2.bin"));
  file << "half of tw" << std::flush;
  std::filesystem::create_directory(path("later"));
  lives_ = 2;
  guard_.look();
  file.close();
  guard_.look();
  guard_.end(End::Killed, true);
  EXPECT_FALSE(exists("epoch-2.bin"));
}

// `cp` in a shell script ends right after its close; the script goes on.
TEST_F(Watching, AFileIsBelievedWhenItsTrainerLivesOn) {
  begin();
  write("epoch-1.bin", "one");
  died_ = true;
  guard_.look();
  EXPECT_EQ(finished(), Names{});
  wait_for(1);
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
}

TEST_F(Watching, AFileOverwrittenInPlaceIsPutBackWhenItsWriterDies) {
  begin();
  write("last.bin", "first");
  wait_for(1);
  write("last.bin", "second");
  wait_for(2);
  write("last.bin", "th");
  died_ = true;
  guard_.end(End::Killed, true);
  EXPECT_EQ(read("last.bin"), "second");
  EXPECT_EQ(set_aside(), 1U);
}

TEST_F(Watching, ASecondGuardTakesUpWhatTheFirstMissed) {
  begin();
  write("epoch-1.bin", "one");
  Keeper mine = keeper();
  Guard second(
      mine, [] { return Deaths(); }, [this](const Saying& it) { said_.push_back(it); },
      [this] { return now_; });
  ASSERT_TRUE(second.begin(true));
  EXPECT_TRUE(exists("epoch-1.bin")) << "a trainer runs: nothing is moved from under it";
  for (int i = 0; i < 600 && finished().empty(); ++i) {
    second.look();
    now_ += std::chrono::milliseconds(100);
  }
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
}

}  // namespace
}  // namespace spotter::guard
