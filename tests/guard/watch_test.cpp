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
            keeper_, [this] { return std::exchange(died_, false); },
            [this](const Saying& saying) { said_.push_back(saying); }) {}

  void begin() {
    const auto begun = guard_.begin(false);
    ASSERT_TRUE(begun) << begun.error().message;
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
  guard_.look();
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
  EXPECT_EQ(said_.back().step, 1U);
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
  guard_.look();
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
}

TEST_F(Watching, FoldersThatAreMadeLaterAreWatchedToo) {
  begin();
  write("run/version_0/epoch-1.bin", "one");
  guard_.look();
  EXPECT_EQ(finished(), Names{"run/version_0/epoch-1.bin"});
  write("run/version_0/epoch-2.bin", "two");
  guard_.look();
  EXPECT_EQ(finished().size(), 2U);
}

TEST_F(Watching, AFolderThatIsMovedKeepsNothingOfItsOldName) {
  begin();
  write("new/epoch-1.bin", "one");
  guard_.look();
  std::filesystem::rename(path("new"), path("old"));
  guard_.look();
  write("old/epoch-2.bin", "two");
  guard_.look();
  EXPECT_EQ(finished(), (Names{"new/epoch-1.bin", "old/epoch-1.bin", "old/epoch-2.bin"}));
}

TEST_F(Watching, AFileThatSomebodyElseStillWritesIsNotFinished) {
  begin();
  const Descriptor other(::open(path("epoch-1.bin").c_str(), O_WRONLY | O_CREAT, 0644));
  write("epoch-1.bin", "closed by one of two");
  guard_.look();
  EXPECT_EQ(finished(), Names{});
}

TEST_F(Watching, ATornFileIsSaidOnceAndNotRecorded) {
  begin();
  write("epoch-1.pt", zip("one").substr(0, 40));
  guard_.look();
  write("epoch-1.pt", zip("one").substr(0, 40));
  guard_.look();
  EXPECT_EQ(finished(), Names{});
  EXPECT_EQ(said_.size(), 1U);
}

// The kernel closes a killed writer's files as if it had closed them itself.
TEST_F(Watching, AFileClosedByItsWritersDeathIsMovedAside) {
  begin();
  write("epoch-1.bin", "one");
  guard_.look();
  write("epoch-2.bin", "half of tw");
  died_ = true;
  guard_.look();
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
  guard_.end(false);
  EXPECT_TRUE(exists("epoch-1.bin"));
  EXPECT_FALSE(exists("epoch-2.bin"));
  EXPECT_FALSE(keeper().record().watching);
}

TEST_F(Watching, ADeathThatIsSeenOnlyAtTheEndCountsToo) {
  begin();
  write("epoch-1.h5", hdf5("flushed, and then killed"));
  died_ = true;
  guard_.end(false);
  EXPECT_FALSE(exists("epoch-1.h5"));
}

TEST_F(Watching, WhatItsOwnEndSealsIsBelievedAlsoThen) {
  begin();
  write("epoch-1.pt", zip("one"));
  died_ = true;
  guard_.end(false);
  EXPECT_TRUE(exists("epoch-1.pt"));
  EXPECT_EQ(finished(), Names{"epoch-1.pt"});
}

TEST_F(Watching, ATrainerThatLeftByItselfHadFinishedItsFiles) {
  begin();
  write("epoch-1.bin", "one");
  died_ = true;  // its data loaders, at the end
  guard_.end(true);
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
  EXPECT_TRUE(exists("epoch-1.bin"));
}

// `cp` in a shell script ends right after its close; the script goes on.
TEST_F(Watching, AFileIsBelievedWhenItsTrainerLivesOn) {
  begin();
  write("epoch-1.bin", "one");
  died_ = true;
  guard_.look();
  EXPECT_EQ(finished(), Names{});
  for (int i = 0; i < 1000 && finished().empty(); ++i) {
    ::usleep(10'000);
    guard_.look();
  }
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
}

TEST_F(Watching, AFileOverwrittenInPlaceIsPutBackWhenItsWriterDies) {
  begin();
  write("last.bin", "first");
  guard_.look();
  write("last.bin", "second");
  guard_.look();
  write("last.bin", "th");
  died_ = true;
  guard_.end(false);
  EXPECT_EQ(read("last.bin"), "second");
  EXPECT_EQ(set_aside(), 1U);
}

TEST_F(Watching, ASecondGuardTakesUpWhatTheFirstMissed) {
  begin();
  write("epoch-1.bin", "one");
  Keeper mine = keeper();
  Guard second(
      mine, [] { return false; }, [this](const Saying& it) { said_.push_back(it); });
  ASSERT_TRUE(second.begin(true));
  EXPECT_TRUE(exists("epoch-1.bin")) << "a trainer runs: nothing is moved from under it";
  for (int i = 0; i < 1000 && finished().empty(); ++i) {
    ::usleep(10'000);
    second.look();
  }
  EXPECT_EQ(finished(), Names{"epoch-1.bin"});
}

}  // namespace
}  // namespace spotter::guard
