// A guard beside scripts whose files get other names, are put together of parts, or end torn on a
// full disk: what their next start finds. Real files, real inotify.
#include <fstream>

#include "tests/guard/lives.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

// ckpt.2.pt <- ckpt.1.pt <- ckpt.pt, which is written then.
TEST_F(Lives, ARotationIsOfOneSave) {
  for (int first : {1, 11}) {
    Life life(files("*.pt"));
    for (int step = first; step < first + 5; ++step) {
      rotate();
      const std::string content = zip(std::to_string(step));
      std::ofstream file(path("ckpt.pt"));
      file << content.substr(0, 20) << std::flush;
      for (int i = 0; i < 2; ++i) life.look();
      file << content.substr(20) << std::flush;
      file.close();
      life.rest(1'300);
    }
    rotate();
    std::ofstream file(path("ckpt.pt"));
    file << "half" << std::flush;
    for (int i = 0; i < 2; ++i) life.look();
    life.died = true;
    life.end(End::Killed);
    EXPECT_EQ(read("ckpt.pt"), zip(std::to_string(first + 4)));
    EXPECT_EQ(read("ckpt.1.pt"), zip(std::to_string(first + 3)));
    EXPECT_EQ(read("ckpt.2.pt"), zip(std::to_string(first + 2)));
  }
}

// The old one gets another name, and time passes before the new one is begun.
TEST_F(Lives, ABackupIsNotAllThereIs) {
  for (int first : {1, 11}) {
    Life life(files("*.pt *.bak"));
    for (int step = first; step < first + 5; ++step) {
      if (exists("model.pt")) fs::rename(path("model.pt"), path("model.bak"));
      life.rest(3'000);
      write("model.pt", zip(std::to_string(step)));
      life.rest(2'000);
    }
    fs::rename(path("model.pt"), path("model.bak"));
    life.rest(3'000);
    life.died = true;
    life.end(End::Killed);
    EXPECT_EQ(read("model.pt"), zip(std::to_string(first + 4)));
    EXPECT_EQ(read("model.bak"), zip(std::to_string(first + 3)));
  }
}

// h5py.File(path, "a"): a table after the other, each with an open of its own.
TEST_F(Lives, AFileThatIsPutTogetherOfPartsIsOneSave) {
  const auto add = [this](const std::string& part) {
    std::ofstream(path("all.bin"), std::ios::app) << part;
  };
  for (const char* first : {"1", "2"}) {
    Life life(files("*.bin"));
    for (const char* save : {"1", "2", "3"}) {
      remove("all.bin");
      for (const char* part : {"a", "b", "c", "d"}) {
        add(std::string(first) + save + part);
        life.look();
        life.rest(100);
      }
      life.rest(1'300);
    }
    EXPECT_EQ(life.finished().size(), 3U);
    remove("all.bin");
    for (const char* part : {"a", "b"}) {
      add(std::string(first) + "4" + part);
      life.look();
      life.rest(100);
    }
    life.died = true;
    life.end(End::Killed);
    const std::string last = first + std::string("3");
    EXPECT_EQ(read("all.bin"), last + "a" + last + "b" + last + "c" + last + "d");
  }
}

// A history, say: written over in place, twice a second, and larger each time.
TEST_F(Lives, AFileThatIsLargerAtEachSaveIsRecordedAtEach) {
  Life life(files("*.bin"));
  std::string content;
  for (int save = 0; save < 30; ++save) {
    content = std::to_string(save) + content + std::to_string(save);
    write("history.bin", content);
    life.rest(500);
  }
  EXPECT_GT(life.finished().size(), 20U);
}

// The look at the next part falls while the file is open.
TEST_F(Lives, APartThatIsAddedMakesNoLogOfItsFile) {
  Life life(files("*.bin"), true);
  for (const char* save : {"1", "2", "3"}) {
    write("model.bin", save);
    remove("all.bin");
    for (const char* part : {"a", "b"}) {
      std::ofstream file(path("all.bin"), std::ios::app);
      file << save << part << std::flush;
      life.look();
      file.close();
      life.rest(100);
    }
    life.rest(1'300);
  }
  EXPECT_EQ(life.finished().size(), 6U);
  write("model.bin", "4");
  remove("all.bin");
  std::ofstream(path("all.bin"), std::ios::app) << "4a";
  life.look();
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("all.bin"), "3a3b");
  EXPECT_EQ(read("model.bin"), "3");
}

// Orbax: written as another folder, which gets its name when all of it is there.
TEST_F(Lives, AFolderThatIsRenamedLeavesNoNamesBehind) {
  for (const bool looks_last : {false, true}) {
    Life life(files("*"));
    for (const char* step : {"10", "20", "30", "40", "50", "60", "70"}) {
      const std::string name = (looks_last ? "b-" : "a-") + std::string(step);
      fs::create_directories(path(name + ".tmp"));
      const bool unseen = (step[0] == '7') != looks_last;  // all is done between two looks
      if (!unseen) life.look();
      for (const char* file : {"a", "b"}) write(name + ".tmp/" + file, zip(step));
      if (!unseen) life.look();
      fs::rename(path(name + ".tmp"), path(name));
      life.rest(1'500);
      EXPECT_EQ(life.finished().empty() ? "" : life.finished().back().substr(0, 4), name);
    }
    life.end(End::Finished);
  }
}

// The disk is full while the second file is written; the script closes it, and ends or goes on.
TEST_F(Lives, ASaveOfWhichAFileIsTornIsNotTaken) {
  for (const End how : {End::Failed, End::Killed, End::Stopped, End::Finished}) {
    Life life(files("*.pt"));
    const auto save = [&](const std::string& step) {
      for (const char* name : {"model.pt", "optim.pt"}) write(name, zip(name + step));
      life.rest(3'000);
    };
    for (const char* step : {"1", "2", "3"}) save(step);
    write("model.pt", zip("model.pt4"));
    write("optim.pt", zip("optim.pt4").substr(0, 30));
    life.rest(5'000);
    if (how == End::Finished) {
      save("5");
    } else {
      life.end(how);
    }
    const std::string last = how == End::Finished ? "5" : "3";
    EXPECT_EQ(read("model.pt"), zip("model.pt" + last));
    EXPECT_EQ(read("optim.pt"), zip("optim.pt" + last));
    EXPECT_EQ(life.finished().size(), how == End::Finished ? 8U : 6U);
  }
}

TEST_F(Lives, ATornFileOfASetThatIsDueSpoilsItToo) {
  Life life(files("*.pt"));
  const std::string kinds[] = {"model_", "optim_", "sched_"};
  for (const char* step : {"10.pt", "20.pt", "30.pt"}) {
    for (const std::string& kind : kinds) write(kind + step, zip(kind));
    life.rest(20'000);
  }
  write("model_40.pt", zip("model_"));
  write("optim_40.pt", zip("optim_").substr(0, 30));
  life.rest(20'000);
  std::ofstream half(path("model_50.pt"));
  half << "half" << std::flush;
  for (int i = 0; i < 2; ++i) life.look();
  life.died = true;
  life.end(End::Killed);
  EXPECT_FALSE(exists("model_40.pt"));
  EXPECT_TRUE(exists("optim_30.pt"));
}

TEST_F(Lives, ATornSaveIsNotCopiedOverAndOver) {
  const auto copies = [this] { return Keeper::open(files("*.pt")).value().record().number; };
  Life life(files("*.pt"));
  const auto save = [&](const std::string& step, bool torn) {
    write("model.pt", zip("model.pt" + step));
    write("optim.pt", torn ? zip("x").substr(0, 30) : zip("optim.pt" + step));
    write("latest", "model.pt");
    life.rest(30'000);
  };
  for (const char* step : {"1", "2", "3"}) save(step, false);
  const auto before = copies();
  save("4", true);
  save("5", false);
  EXPECT_LT(copies() - before, 12U);
}

// It is empty in each save: no disk was full.
TEST_F(Lives, AnEmptyFileOfARankHindersNothing) {
  Life life(files("*.pt"));
  for (int save = 1; save <= 6; ++save) {
    for (const char* name : {"model.pt", "optim_rank_0.pt"}) write(name, zip(std::to_string(save)));
    write("optim_rank_1.pt", "");
    life.rest(40'000);
  }
  life.died = true;
  write("model.pt", zip("7").substr(0, 20));
  life.end(End::Killed);
  EXPECT_EQ(read("model.pt"), zip("6"));
}

TEST_F(Lives, PartsBehindATruncationAreOneSave) {
  Life life(files("*.bin"));
  for (const char* save : {"1", "2", "3", "4"}) {
    write("all.bin", save + std::string("a"));
    life.look();
    life.rest(100);
    for (const char* part : {"b", "c"}) {
      std::ofstream(path("all.bin"), std::ios::app) << save << part;
      life.look();
      life.rest(100);
    }
    life.rest(1'500);
    EXPECT_EQ(life.finished().size(), static_cast<std::size_t>(save[0] - '0'));
  }
  write("all.bin", "5a");
  life.look();
  life.rest(100);
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("all.bin"), "4a4b4c");
}

// It is open for long enough to be taken for a log, until it is closed.
TEST_F(Lives, APartThatTakesLongIsNoLogOnceItIsClosed) {
  Life life(files("*.bin"), true);
  for (const char* save : {"1", "2", "3"}) {
    remove("all.bin");
    for (const char* part : {"a", "b"}) {
      std::ofstream file(path("all.bin"), std::ios::app);
      for (int i = 0; i < 5; ++i, life.rest(500)) file << save << part << std::flush;
      file.close();
      life.rest(100);
    }
    life.rest(3'000);
  }
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(life.finished().size(), 3U);
}

TEST_F(Lives, TheFirstPartOfAnotherRunIsNoSave) {
  const auto part = [this](Life& life, const std::string& bytes, bool first) {
    std::ofstream(path("all.bin"), first ? std::ios::trunc : std::ios::app) << bytes;
    life.look();
    life.rest(100);
  };
  {
    Life life(files("*.bin"));
    for (const char* save : {"1", "2", "3"}) {
      for (const char* name : {"a", "b", "c"}) part(life, std::string(save) + name, name[0] == 'a');
      life.rest(1'500);
    }
    life.died = true;
    life.end(End::Killed);
  }
  Life life(files("*.bin"));
  part(life, "4a", true);
  life.rest(500);
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("all.bin"), "3a3b3c");
}

// A run of eight saves, and one that is killed amid its first.
class TwoRuns : public Lives {
 protected:
  // `begin`: at the first run's start. `behind`: each of its saves.
  using Writes = std::function<void(Life&)>;
  void play(const Where& where, const Writes& begin, const Writes& behind) {
    for (const int saves : {8, 0}) {
      Life life(where);
      if (saves > 0) begin(life);
      for (int save = 1; save <= saves; ++save) {
        for (const char* name : {"model.pt", "optim.pt"}) {
          write(name, zip(name + std::to_string(save)));
          life.rest(3'000);
        }
        behind(life);
        life.rest(40'000);
      }
      if (saves == 0) {
        write("model.pt", zip("half a save"));
        life.rest(3'000);
      }
      life.died = true;
      life.end(End::Killed);
    }
    EXPECT_EQ(read("model.pt"), zip("model.pt8"));
    EXPECT_EQ(read("optim.pt"), zip("optim.pt8"));
  }
  void line(Life& life, const char* name) const {
    std::ofstream(path(name), std::ios::app) << "a line\n";
    life.look();
  }
};

// They are written on, too, and the run goes on knowing what a save is.
TEST_F(TwoRuns, LinesOfALogUnlearnNothing) {
  play(
      {mount_, "ckpt", ""},
      [&](Life& life) {
        for (int i = 0; i < 4; ++i, life.rest(200)) line(life, "log.txt");
      },
      [&](Life& life) { line(life, "log.txt"); });
}

// Written on once, at a run's start.
TEST_F(TwoRuns, ATextInTwoPartsUnlearnsNothing) {
  play(
      files("*.pt *.txt"),
      [&](Life& life) {
        for (int i = 0; i < 2; ++i, life.rest(200)) line(life, "config.txt");
      },
      [](Life&) {});
}

TEST_F(Lives, OldOnesThatAreArchivedAreAwaitedByNobody) {
  fs::create_directories(mount_ / "archive");
  const auto name = [](int step) { return "epoch_" + std::to_string(step) + ".pt"; };
  const auto archive = [&](int step) {
    fs::rename(path(name(step)), mount_ / "archive" / name(step));
  };
  {
    Life life(files("*.pt"));
    for (int step = 1; step <= 8; ++step) {
      if (step > 2) archive(step - 2);
      life.look();
      write(name(step), zip(name(step)));
      life.rest(2'000);
      EXPECT_EQ(life.finished().size(), static_cast<std::size_t>(step));
      life.rest(step % 2 == 1 ? 5'000 : 40'000);
    }
    archive(7);
    write(name(9), zip(name(9)));
    for (int i = 0; i < 2; ++i) life.look();
    life.died = true;
    life.end(End::Killed);
  }
  EXPECT_TRUE(exists(name(9)));
  const Keeper keeper = Keeper::open(files("*.pt")).value();
  for (const Shapes& set : keeper.record().usual) EXPECT_EQ(set.at("epoch_#.pt"), 1U);
}

TEST_F(Lives, BothFilesOfOldSavesAreArchivedAndAwaitedByNobody) {
  fs::create_directories(mount_ / "archive");
  Life life(files("*.pt"));
  for (int step = 1; step <= 6; ++step) {
    const auto number = [](int of) { return std::to_string(of) + ".pt"; };
    for (const char* file : {"model_", "optim_"}) {
      write(file + number(step), zip(number(step)));
      life.look();
    }
    life.rest(2'000);
    EXPECT_EQ(life.finished().size(), static_cast<std::size_t>(2 * step));
    for (const char* file : {"model_", "optim_"})
      if (step > 2) fs::rename(path(file + number(step - 2)), mount_ / "archive" / number(step));
    life.rest(5'000);
  }
}

// The next save is begun as soon as one is done.
TEST_F(Lives, TheNextFileUnderAnotherNameHindersNoGeneration) {
  Life life(files("*"));
  std::ofstream next(path("weights.tmp"));
  for (std::size_t save = 1; save <= 4; ++save) {
    next << save << std::flush;
    life.rest(500);
    next = {};
    fs::rename(path("weights.tmp"), path("weights"));
    next = std::ofstream(path("weights.tmp"));
    next << "half" << std::flush;
    life.rest(3'000);
    EXPECT_EQ(life.finished().size(), save);
  }
}

TEST_F(Lives, WhatAPersonMovesAwayIsAwaitedForOneSaveAtMost) {
  Life life(files("*.pt"));
  write("old.pt", zip("old"));
  life.rest(3'000);
  for (int save = 1; save <= 8; ++save) {
    if (save == 4) fs::rename(path("old.pt"), mount_ / "old.pt");
    for (const char* each : {"model.pt", "optim.pt"}) write(each, zip(each + std::to_string(save)));
    life.rest(15'000);
  }
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("model.pt"), zip("model.pt8"));

  EXPECT_EQ(life.finished().size(), 13U) << "without the second, the first that lacks it, and the "
                                            "fourth";
}

// It was stopped on a full disk, when it had removed the save before.
TEST_F(Lives, AStopOnATornSaveKeepsTheOneBefore) {
  Life life(files("*.pt"));
  const auto save = [&](const std::string& number, bool torn) {
    write("model_" + number, zip("m" + number));
    write("optim_" + number, torn ? zip("o").substr(0, 30) : zip("o" + number));
    write("latest", "model_" + number);
  };
  for (const char* number : {"10.pt", "20.pt", "30.pt"}) {
    save(number, false);
    life.rest(20'000);
  }
  save("40.pt", true);
  for (const char* name : {"model_30.pt", "optim_30.pt"}) remove(name);
  life.end(End::Stopped);
  EXPECT_EQ(there(), (Names{"model_10.pt", "optim_10.pt", "model_20.pt", "optim_20.pt",
                            "model_30.pt", "optim_30.pt", "latest"}));
  EXPECT_EQ(read("latest"), "model_30.pt");
}

TEST_F(Lives, AnEmptyFileOfARankCostsNoRunItsSaves) {
  int save = 0;
  for (const End how : {End::Killed, End::Killed, End::Stopped}) {
    Life life(files("*.pt"));
    for (int i = 0; i < 2; ++i) {
      const std::string content = zip(std::to_string(++save));
      for (const char* name : {"model.pt", "optim_rank_0.pt"}) write(name, content);
      write("optim_rank_1.pt", "");
      if (how != End::Stopped || i == 0) life.rest(40'000);
    }
    life.end(how);
    EXPECT_EQ(read("model.pt"), zip(std::to_string(save)));
  }
}

TEST_F(Lives, ARotationOfOneOfTwoFilesMixesNothing) {
  Life life(files("*.pt *.bak"));
  for (int save = 1; save <= 5; ++save) {
    if (exists("model.pt")) fs::rename(path("model.pt"), path("model.bak"));
    write("model.pt", zip("m" + std::to_string(save)));
    life.rest(2'000);
    if (save == 5) break;
    write("optim.pt", zip("o" + std::to_string(save)));
    life.rest(58'000);
  }
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("model.pt"), zip("m4"));
  EXPECT_EQ(read("optim.pt"), zip("o4"));
}

TEST_F(Lives, ABestModelBringsNoTornSaveIn) {
  Life life(files("*.pt"));
  const auto save = [&](const std::string& number, bool torn) {
    write("model.pt", zip("m" + number));
    write("optim.pt", torn ? zip("x").substr(0, 30) : zip("o" + number));
  };
  save("1", false);
  write("best.pt", zip("b1"));
  life.rest(10'000);
  for (const char* number : {"2", "3"}) {
    save(number, false);
    life.rest(10'000);
  }
  save("4", true);
  life.rest(5'000);
  for (const char* best : {"b2", "b3"}) {
    write("best.pt", zip(best));
    life.rest(5'000);
  }
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("model.pt"), zip("m3"));
  EXPECT_EQ(read("optim.pt"), zip("o3"));
}

// A disk that stays full: the models go on, and nothing older is put beside them.
TEST_F(Lives, ADiskThatStaysFullMixesNothing) {
  Life life(files("*.pt"));
  for (int save = 1; save <= 7; ++save) {
    write("model.pt", zip(std::to_string(save)));
    const std::string content = zip(std::to_string(save));
    write("optim.pt", save > 3 ? content.substr(0, 30) : content);
    life.rest(40'000);
  }
  life.died = true;
  life.end(End::Killed);
  EXPECT_TRUE(!exists("optim.pt") || read("optim.pt") == read("model.pt"));
}

TEST_F(Lives, TheFirstRotationLeavesACheckpointToStartOn) {
  for (const char* name : {"model.pt", "model.h5"}) {
    const bool zipped = std::string(name) == "model.pt";
    const auto content = [&](const char* text) { return zipped ? zip(text) : hdf5(text); };
    const std::string old = std::string(name) + ".bak";
    Life life(files("*.pt *.h5 *.bak"));
    write(name, content("1"));
    life.rest(3'000);
    fs::rename(path(name), path(old));
    life.rest(3'000);
    life.died = true;
    life.end(End::Killed);
    EXPECT_EQ(read(name), content("1")) << name;
  }
}

TEST_F(Lives, AFileThatIsVerifiedBeforeItGetsItsNameIsAwaitedOnce) {
  Life life(files("*.pt"));
  for (int save = 1; save <= 3; ++save) {
    const std::string name = "ckpt_" + std::to_string(save) + ".pt";
    write("tmp.pt", zip(name));
    life.rest(3'000);
    fs::rename(path("tmp.pt"), path(name));
    life.rest(save < 3 ? 60'000 : 5'000);
  }
  life.died = true;
  life.end(End::Killed);
  EXPECT_TRUE(exists("ckpt_3.pt"));
}

TEST_F(Lives, ATornFileThatIsWrittenAgainBringsItsSaveBack) {
  {
    Life life(files("*.pt"));
    for (const char* step : {"1", "2", "3"}) {
      for (const char* name : {"model.pt", "optim.pt"}) write(name, zip(name + std::string(step)));
      life.rest(10'000);
    }
    write("model.pt", zip("model.pt4"));
    write("optim.pt", zip("optim.pt4").substr(0, 30));
    life.rest(5'000);
    write("optim.pt", zip("optim.pt4"));
    life.rest(40'000);
  }  // the machine is lost
  settle(files("*.pt"));
  EXPECT_EQ(read("model.pt"), zip("model.pt4"));
  EXPECT_EQ(read("optim.pt"), zip("optim.pt4"));
}

TEST_F(Lives, ABestModelOfATornSaveIsKeptWithTheNextWholeOne) {
  Life life(files("*.pt"));
  const auto save = [&](const std::string& number, bool best, bool torn) {
    write("model.pt", zip("m" + number));
    if (best) write("best.pt", zip("b" + number));
    write("optim.pt", torn ? zip("o").substr(0, 30) : zip("o" + number));
    life.rest(40'000);
  };
  for (const char* number : {"1", "2", "3"}) save(number, true, false);
  save("4", true, true);
  save("5", false, false);
  write("model.pt", zip("m6").substr(0, 20));
  life.look();
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("model.pt"), zip("m5"));
  EXPECT_EQ(read("best.pt"), zip("b4"));
}

TEST_F(Lives, AFolderInTheSamePlaceIsRecordedAfterATornOne) {
  const Where all{mount_, "ckpt", ""};
  Life life(all);
  for (int save = 1; save <= 6; ++save) {
    fs::create_directories(path("tmp"));
    life.look();
    const std::string content = zip(std::to_string(save));
    write("tmp/model.pt", content);
    write("tmp/optim.pt", save == 4 ? content.substr(0, 30) : content);
    fs::remove_all(path("old"));
    if (exists("live")) fs::rename(path("live"), path("old"));
    fs::rename(path("tmp"), path("live"));
    life.rest(70'000);
  }
  const Keeper now = Keeper::open(all).value();
  const auto status = now.place().look("live/model.pt");
  const Row* row = now.record().row("live/model.pt");
  ASSERT_TRUE(row != nullptr && status);
  EXPECT_EQ(row->mtime_ns, found("live/model.pt", *status).mtime_ns);
}

// A rank whose file was whole once, and looks torn ever after; or a full disk, for all of them.
TEST_F(Lives, ATornRankIsCountedOnceASave) {
  for (const bool all : {false, true}) {
    Life life(files("*.pt"));
    const int last = all ? 5 : 8;
    for (int save = 1; save <= last; ++save) {
      const std::string content = zip(std::to_string(save));
      write("model.pt", content);
      for (const char* rank : {"rank_0.pt", "rank_1.pt", "rank_2.pt"}) {
        const bool torn = save > 3 && (all || rank[5] == '1');
        write(rank, torn ? content.substr(0, 30) : content);
      }
      life.rest(40'000);
    }
    write("model.pt", "half");
    life.died = true;
    life.end(End::Killed);
    EXPECT_EQ(read("model.pt"), zip(all ? "3" : "8"));
    EXPECT_EQ(read("rank_0.pt"), zip(all ? "3" : "8"));
    life.end(End::Finished);
  }
}

TEST_F(Lives, ALogOfOneLineHindersNoSave) {
  const Where all{mount_, "ckpt", ""};
  for (const bool logs : {false, true}) {
    Life life(all, logs);
    std::ofstream log;
    for (int save = 1; save <= (logs ? 1 : 4); ++save) {
      for (const char* name : {"model.pt", "optim.pt"})
        write(name, zip(name + std::to_string(save + 4 * logs)));
      if (logs) {
        log.open(path("train.out"), std::ios::app);
        log << "one line\n" << std::flush;
      }
      life.rest(logs ? 3'000 : 20'000);
    }
    log.close();
    life.died = true;
    life.end(End::Killed);
  }
  EXPECT_EQ(read("model.pt"), zip("model.pt5"));
}

// Three processes write over their own files, in the first save of each run.
TEST_F(Lives, FilesOfProcessesAreNoSavesOneBehindTheOther) {
  for (const char* name : {"shard", "state_rank"}) {
    const auto file = [name](int i) { return name + std::to_string(i) + ".pt"; };
    for (const fs::path& folder : {path(""), mount_ / ".spotter"}) {
      fs::remove_all(folder);
      fs::create_directories(folder);
    }
    for (const bool killed : {false, true}) {
      Life life(files("*.pt"));
      for (int i = 0; i < 3 - killed; ++i, life.rest(200)) write(file(i), zip(killed ? "2" : "1"));
      EXPECT_EQ(life.finished().size(), 0U) << name;
      if (!killed) life.rest(2'500);
      life.end(End::Killed);
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(read(file(i)), zip("1")) << file(i);
  }
}

// The folder is removed before each save; the trainer is killed in the second.
TEST_F(Lives, ATornSecondSaveIsNotTakenForAllThatOneHas) {
  const std::vector<std::string> all = {"model.pt", "optim.pt", "scheduler.pt", "scaler.pt"};
  const auto save = [&](Life& life, const std::string& step, std::size_t count) {
    fs::remove_all(path("last"));
    for (std::size_t i = 0; i < count; ++i, life.rest(200)) write("last/" + all[i], zip(step));
  };
  {
    Life life(files("*.pt"));
    save(life, "1", 4);
    life.rest(3'000);
    save(life, "2", 3);
    life.end(End::Killed);
  }
  Life life(files("*.pt"));
  save(life, "2", 4);
  life.rest(3'000);
  save(life, "3", 3);
  life.rest(1'500);
  life.end(End::Killed);
  for (const std::string& name : all) EXPECT_EQ(read("last/" + name), zip("2")) << name;
}

// A save of fewer shards is gone before it was recorded.
TEST_F(Lives, WhatIsLeftOfASaveThatLostItsShardsIsNoneOfTheNext) {
  const auto shard = [](int i, int of) {
    return "model-0" + std::to_string(i) + "-of-0" + std::to_string(of) + ".pt";
  };
  Life life(files("*.pt"));
  const auto save = [&](const std::string& step, int shards) {
    for (const std::string& name : there())
      if (name.ends_with(shards == 2 ? "3.pt" : "2.pt")) fs::remove(path(name));
    for (int i = 1; i <= shards; ++i) write(shard(i, shards), zip(step));
    for (const char* name : {"index.pt", "optim.pt"}) write(name, zip(step));
    life.rest(500);
  };
  for (const char* step : {"1", "2", "3"}) {
    save(step, 3);
    life.rest(5'000);
  }
  save("4", 2);
  for (int i = 1; i <= 2; ++i) fs::remove(path(shard(i, 2)));
  for (int i = 1; i <= 3; ++i) write(shard(i, 3), zip("5"));
  std::ofstream half(path("index.pt"));
  half << "half" << std::flush;
  for (int i = 0; i < 3; ++i) life.rest(200);
  life.end(End::Killed);
  for (const std::string& name : there()) EXPECT_EQ(read(name), zip("3")) << name;
}

// Each run opens one of its own, and not only to add to it.
TEST_F(Lives, ALogByItsNameThatIsNewHindersNothing) {
  for (const char* step : {"1", "2"}) {
    Life life(files("*"));
    std::ofstream log(path(std::string("learn_error_") + step + ".tsv"));
    log << "1\t0.5\n" << std::flush;
    write("experiment.tmp", zip(step));
    fs::rename(path("experiment.tmp"), path("experiment.cbsnapshot"));
    log << "2\t0.5\n" << std::flush;
    life.rest(*step == '1' ? 3'000 : 0);
    life.end(End::Killed);
  }
  EXPECT_EQ(read("experiment.cbsnapshot"), zip("2"));
  EXPECT_TRUE(exists("learn_error_2.tsv"));
}

// A log in a save's own folder goes with it.
TEST_F(Lives, ATornFolderLeavesNoLogBehind) {
  fs::create_directories(path("out"));
  Life life(files("*"));
  for (const char* step : {"1", "2", "3"}) {
    for (const char* name : {"/metrics.csv", "/model.pt"})
      write("out/checkpoint-" + std::string(step) + name, zip(step));
    life.rest(5'000);
  }
  write("out/checkpoint-4/metrics.csv", "1,2\n");
  std::ofstream half(path("out/checkpoint-4/model.pt"));
  half << "half" << std::flush;
  life.rest(100);
  life.end(End::Killed);
  EXPECT_TRUE(exists("out/checkpoint-3/model.pt"));
  EXPECT_FALSE(exists("out/checkpoint-4"));
}

// Each line begins with the end of the one before.
TEST_F(Lives, ALogThatEndsInNoNewlineIsOne) {
  Life life(files("*"));
  for (int step = 1; step <= 3; ++step, life.rest(3'000))
    std::ofstream(path("out.txt"), std::ios::app) << "\nstep " << step;
  life.end(End::Killed);
  EXPECT_TRUE(Keeper::open(files("*")).value().record().row("out.txt")->grows);
}

// Trained shard by shard: the number is the save's after all.
TEST_F(Lives, ASeriesOfShardsIsNoSetOfRanks) {
  Life life(files("*.pt"));
  for (const std::string save : {"1", "2", "3", "4", "5"}) {
    write("model_shard_" + save + ".pt", zip(save));
    life.rest(save == "5" ? 3'000 : 5'000);
    if (save == "5") break;
    write("optim_shard_" + save + ".pt", zip(save));
    life.rest(60'000);
  }
  life.end(End::Killed);
  EXPECT_FALSE(exists("model_shard_5.pt"));
  EXPECT_TRUE(exists("optim_shard_4.pt"));
}

}  // namespace
}  // namespace spotter::guard
