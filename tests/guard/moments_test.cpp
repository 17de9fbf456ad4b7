// When a directory is as its script means to leave it, on virtual time.
#include "agent/guard/moments.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <ranges>

namespace spotter::guard {
namespace {

using std::chrono::milliseconds;

class Quiet : public testing::Test {
 protected:
  // The file is opened now, and closed so much later.
  void write(const std::string& name, int milliseconds_long = 10) {
    moments.wrote(name, false, now);
    now += milliseconds(milliseconds_long);
    moments.wrote(name, true, now);
  }
  void rest(int milliseconds_long) { now += milliseconds(milliseconds_long); }
  bool is_quiet() const { return moments.wait(now) == milliseconds(0); }
  // Does what the guard does.
  bool look() {
    const bool quiet = is_quiet();
    if (quiet) moments.captured();
    return quiet;
  }
  Moments moments;
  Moments::Time now{std::chrono::hours(1)};
};

TEST_F(Quiet, NothingHasHappened) { EXPECT_EQ(moments.wait(now), std::nullopt); }

TEST_F(Quiet, WhileNothingIsKnownItIsAfterASecond) {
  write("last.pt");
  EXPECT_FALSE(is_quiet());
  rest(990);
  EXPECT_FALSE(is_quiet());
  rest(10);
  EXPECT_TRUE(look());
  EXPECT_EQ(moments.wait(now), std::nullopt);
}

TEST_F(Quiet, OtherRanksMayHaveTheirFilesLater) {
  write("step_1/rank_0.pt");
  rest(1600);
  EXPECT_FALSE(is_quiet());
  write("step_1/rank_1.pt");
  rest(2000);
  EXPECT_TRUE(look());
}

// The rest of that save is of the one that takes its place.
TEST_F(Quiet, ASaveThatLosesAFileBeforeItIsLookedAtIsNotDue) {
  for (const char* name : {"model_1.pt", "optim_1.pt", "model_2.pt"}) write(name);
  EXPECT_EQ(moments.wait(now), Moments::Pause(0));
  EXPECT_FALSE(moments.is_current("model_1.pt"));
  moments.removed("optim_1.pt", now);
  EXPECT_NE(moments.wait(now), Moments::Pause(0));
  EXPECT_TRUE(moments.is_current("model_1.pt"));
  EXPECT_TRUE(moments.in_flux().empty());
}

TEST_F(Quiet, WhatIsRemovedWhileASaveIsDueWasOfTheNextAllTheSame) {
  for (const char* name : {"model_1.pt", "optim_1.pt", "model_2.pt"}) write(name);
  moments.removed("model_2.pt", now);
  EXPECT_EQ(moments.in_flux(), std::set<std::string>{"model_2.pt"});
}

TEST_F(Quiet, TheLastSaveMayBeRemovedBeforeTheNextIsWritten) {
  for (const std::string step : {"1", "2", "3", "4"}) {
    for (const std::string name : {"model_", "optim_"}) write(name + step + ".pt");
    if (step == "4") break;
    rest(1000);
    EXPECT_TRUE(look());
    rest(20'000);
    if (step != "3") continue;
    for (const std::string name : {"model_", "optim_"}) moments.removed(name + step + ".pt", now);
  }
  moments.wrote("model_5.pt", false, now);
  EXPECT_EQ(moments.wait(now), Moments::Pause(0));
  EXPECT_FALSE(moments.is_current("model_4.pt"));
}

TEST_F(Quiet, ASaveThatLostAFileIsNotDueWhenTheNextBegins) {
  for (const char* step : {"1", "2", "3"}) {
    for (const char* name : {"model_", "optim_"}) write(name + std::string(step) + ".pt");
    rest(1000);
    EXPECT_TRUE(look());
    rest(20'000);
  }
  for (const char* name : {"model_4.pt", "optim_4.pt"}) write(name);
  moments.removed("optim_4.pt", now);
  moments.wrote("model_5.pt", false, now);
  EXPECT_NE(moments.wait(now), Moments::Pause(0));
  EXPECT_TRUE(moments.is_current("model_4.pt"));
}

TEST_F(Quiet, OnceTheSetIsKnownItIsAtItsEnd) {
  for (int i = 0; i < 3; ++i) {
    write("last.pt");
    rest(1000);
    look();
    rest(60'000);
  }
  write("last.pt");
  EXPECT_TRUE(look()) << "at once";
}

// Killed amid its first set, a run leaves half of one as what is usual.
TEST_F(Quiet, HalfASetOfAnEarlierRunIsForgottenByAWholeFolder) {
  const auto save = [this](int step, int ranks) {
    bool early = false;
    for (int rank = 0; rank < ranks; ++rank) {
      write("step_" + std::to_string(step) + "/rank_" + std::to_string(rank) + ".pt");
      for (int i = 0; i < 16; ++i, rest(100)) early |= look() && rank + 1 < ranks;
    }
    rest(30'000);
    look();
    return early;
  };
  for (int life = 1; life <= 3; ++life) {
    save(10, 1);
    moments = Moments(moments.learned());
  }
  save(10, 2);
  save(20, 2);
  for (int step = 30; step <= 60; step += 10) EXPECT_FALSE(save(step, 2)) << step;
}

// Marian's manner: the numbered name comes first, amid or last.
TEST_F(Quiet, ANumberedFileIsFinishedAsOftenAsItsSeries) {
  for (const std::size_t place : {0U, 1U, 2U}) {
    moments = Moments();
    for (int save = 1; save <= 4; ++save) {
      std::vector<std::string> names = {"model.npz", "optim.npz"};
      names.insert(names.begin() + static_cast<std::ptrdiff_t>(place),
                   "model.iter" + std::to_string(10 * save) + ".npz");
      for (const std::string& name : names) {
        EXPECT_FALSE(look()) << name << " of save " << save << ", place " << place;
        write(name);
        rest(50);
      }
      int captured = 0;
      for (int i = 0; i < 12; ++i, rest(100)) captured += look();
      EXPECT_EQ(captured, 1) << "save " << save << ", place " << place;
    }
  }
}

TEST_F(Quiet, ASetIsNotOverBeforeItsLastFile) {
  for (int step = 10; step <= 30; step += 10) {
    const std::string number = std::to_string(step);
    write("model_" + number + ".pt");
    rest(3000);
    if (step > 10) {
      EXPECT_FALSE(look()) << step;
    }
    look();
    write("optim_" + number + "_rank0.pt");
    rest(500);
    write("optim_" + number + "_rank1.pt");
    if (step > 10) {
      EXPECT_TRUE(look()) << step;
    }
    rest(60'000);
    look();
  }
  write("model_40.pt");
  rest(29'000);
  EXPECT_FALSE(is_quiet());
  EXPECT_FALSE(moments.is_sure());
  rest(2'000);
  EXPECT_TRUE(is_quiet()) << "it must have gone on to something else";
}

// YOLO's best.pt: each epoch is the best one at first.
TEST_F(Quiet, WhatSavesLackSinceIsNotWaitedForAtEachOfThem) {
  for (int epoch = 1; epoch <= 6; ++epoch) {
    write("weights/last.pt");
    EXPECT_FALSE(look()) << "the best one may be copied now";
    if (epoch <= 2) write("weights/best.pt");
    rest(100);
    EXPECT_TRUE(epoch <= 2 || look()) << epoch;
    rest(900);
    look();
    rest(5000);
  }
}

TEST_F(Quiet, AFolderIsOverWhenTheNextIsBegun) {
  for (const char* file : {"model", "optimizer", "scheduler"}) {
    write("checkpoint-1/" + std::string(file));
    rest(700);
  }
  EXPECT_FALSE(look()) << "never quiet for a second";
  write("checkpoint-2/model");
  EXPECT_TRUE(is_quiet());
  EXPECT_EQ(moments.in_flux(), std::set<std::string>{"checkpoint-2/model"});
  EXPECT_TRUE(moments.is_closed("checkpoint-1/optimizer"));
  EXPECT_FALSE(moments.is_current("checkpoint-1/optimizer"));
  moments.captured();
  EXPECT_FALSE(is_quiet());
  rest(700);
  write("checkpoint-2/optimizer");
  EXPECT_FALSE(is_quiet());
  rest(700);
  write("checkpoint-2/scheduler");
  EXPECT_TRUE(look()) << "it has what the one before had";
}

TEST_F(Quiet, WhatACallbackAddsBelongsToItsFolder) {
  for (int step = 1; step <= 4; ++step) {
    const std::string folder = "checkpoint-" + std::to_string(step);
    write(folder + "/trainer_state.json");
    rest(50);
    if (step > 1) {
      EXPECT_FALSE(look()) << step;
    }
    write(folder + "/adapter_model/adapter_model.bin");
    moments.removed(folder + "/pytorch_model.bin", now);
    rest(1000);
    look();
    rest(20'000);
  }
}

TEST_F(Quiet, ABestModelNowAndThenChangesNothing) {
  for (int epoch = 0; epoch < 6; ++epoch) {
    write("epoch.keras");
    rest(100);
    write("backup.keras");
    rest(1000);
    look();
    if (epoch % 3 == 1) {
      write("best.keras");
      EXPECT_TRUE(look()) << epoch;
    }
    rest(10'000);
    if (epoch < 2) continue;
    EXPECT_EQ(moments.wait(now), std::nullopt) << epoch;
  }
  write("epoch.keras");
  EXPECT_FALSE(look());
  write("backup.keras");
  rest(100);
  EXPECT_TRUE(look());
}

// TensorFlow's: each is written beside, and renamed.
TEST_F(Quiet, ASetMayBeginWithATemporaryName) {
  for (const char* number : {"1", "2", "3"}) {
    for (const char* kind : {".data-00000-of-00001", ".index"}) {
      const std::string name = "cp-" + std::string(number) + kind;
      write(name + ".tmp");
      moments.removed(name + ".tmp", now);
      moments.wrote(name, true, now);
    }
    if (*number != '1') {
      EXPECT_TRUE(look()) << number;
    }
    rest(4'000);
    look();
  }
}

TEST_F(Quiet, CheckpointsMayLieDeepInOneFolder) {
  for (int epoch = 1; epoch <= 4; ++epoch) {
    write("version_0/checkpoints/epoch=" + std::to_string(epoch) + ".ckpt");
    if (epoch > 1) {
      EXPECT_TRUE(look()) << epoch;
    }
    rest(1'000);
    look();
    rest(600'000);
  }
}

TEST_F(Quiet, FilesOfRanksThatAreWrittenOverAreOneSet) {
  for (const std::string of : {"rank", ""}) {
    moments = Moments();
    for (int save = 0; save < 5; ++save) {
      write(of + "0.pt");
      rest(100);
      EXPECT_FALSE(look()) << of << save;
      write(of + "1.pt");
      if (save > 2) {
        EXPECT_TRUE(look()) << of << save;
      }
      rest(1'000);
      look();
      rest(20'000);
      look();
    }
  }
}

TEST_F(Quiet, AModelAndFilesOfRanksThatAreWrittenOverAreOneSet) {
  for (int save = 0; save < 5; ++save) {
    for (const char* name : {"model.pt", "rank0.pt", "rank1.pt", "rank2.pt"}) {
      EXPECT_FALSE(save > 1 && look()) << save << name;
      write(name);
      rest(100);
    }
    rest(1'900);
    EXPECT_TRUE(look()) << save;
    rest(20'000);
    look();
  }
}

TEST_F(Quiet, ANumberThatNeverChangesSaysNothing) {
  for (int epoch = 1; epoch <= 6; ++epoch) {
    const std::string number = std::to_string(epoch);
    write("weights.0" + number + "-0.9" + number + ".hdf5");
    EXPECT_FALSE(epoch > 2 && look()) << epoch;
    rest(200);
    write("backup.h5");
    rest(1000);
    EXPECT_TRUE(look() || epoch < 3) << epoch;
    rest(6'000);
  }
}

TEST_F(Quiet, AnotherFoldIsAnotherSet) {
  for (const std::string fold : {"fold_1/", "fold_2/"})
    for (int save = 0; save < 5; ++save) {
      write(fold + "last.pt");
      EXPECT_FALSE(look()) << fold << save;
      rest(200);
      write(fold + "optim.pt");
      rest(1000);
      look();
      rest(6'000);
    }
}

TEST_F(Quiet, ASetThatIsWrittenOverBeforeItWasCapturedIsNone) {
  for (int save = 0; save < 3; ++save) {
    write("model.pt");
    write("optim.pt");
    rest(1'000);
    look();
    rest(20'000);
  }
  write("model.pt");
  write("optim.pt");
  moments.wrote("model.pt", false, now);  // nobody has looked
  EXPECT_FALSE(is_quiet());
  EXPECT_TRUE(moments.in_flux().empty());
}

TEST_F(Quiet, AFileIsOneWhileItIsOpen) {
  for (int i = 0; i < 2; ++i) {
    write("last.pt");
    rest(1000);
    look();
    rest(5'000);
  }
  moments.wrote("last.pt", false, now);
  rest(20'000);
  EXPECT_FALSE(is_quiet());
  moments.wrote("last.pt", true, now);
  EXPECT_TRUE(is_quiet());
}

TEST_F(Quiet, WhatStaysOpenWhileTwoSetsAreWrittenIsALog) {
  for (int step = 1; step <= 4; ++step) {
    moments.wrote("samples.bin", false, now);
    rest(100);
    write("model_" + std::to_string(step) + ".pt");
    moments.wrote("samples.bin", false, now);
    rest(500);
    if (step > 2) {
      EXPECT_TRUE(look()) << step;
    }
    rest(20'000);
    look();
  }
  EXPECT_TRUE(moments.grows("samples.bin"));
  EXPECT_FALSE(moments.grows("model_4.pt"));
}

// A text to which each step adds a line, and which is closed each time.
TEST_F(Quiet, LinesThatAreAddedAtEachStepHinderNothingForLong) {
  const auto line = [this] {
    moments.wrote("text.csv", false, now, false, true);
    moments.wrote("text.csv", true, now, false, true);
    rest(300);
  };
  int captured = 0;
  for (int save = 1; save <= 3; ++save) {
    write("model_" + std::to_string(save) + ".pt");
    for (int i = 0; i < 120; ++i, captured += look()) line();
  }
  EXPECT_GE(captured, 3);
}

TEST_F(Quiet, WhatEarlierRunsWroteIsUsual) {
  moments = Moments({{{"model_#.pt", 1}, {"optim_#.pt", 1}}});
  write("model_50.pt");
  rest(2000);
  EXPECT_FALSE(is_quiet());
  EXPECT_FALSE(moments.is_complete());
  write("optim_50.pt");
  EXPECT_TRUE(is_quiet());
  EXPECT_TRUE(moments.is_complete());
}

// Scripts that nobody wrote, by a seed each: names, gaps and pauses between a thirtieth of a second
// and half a minute. Nothing that is captured is of two saves, once a script has written all
// its files, and nearly every save is captured.
class Script {
 public:
  explicit Script(std::uint32_t seed) : dice_(seed) {
    files_ = 2 + dice_() % 3;
    for (std::size_t i = 0; i < files_; ++i) {
      gaps_.push_back(i == 0 ? 0 : between(-1.5, 0.8));
      open_.push_back(between(-2, 0));
    }
    pause_ = between(-0.5, 1.5);
    // That end behind one save each, of which a guard cannot know that more comes later.
    const int lives = static_cast<int>(dice_() % 4);
    lives_ = std::ranges::max(gaps_) < 800 ? lives : 0;
    kind_ = static_cast<Kind>(dice_() % kinds);
  }
  enum Kind : std::uint8_t {
    Plain,
    Once,
    Best,
    Ranks,
    ModelAndRanks,
    NumberedAndRanks,
    LastIsNumbered,
    FirstTwice,
    Numbered,
    Found,
    Folders,
    FoundFolders,
    EpochsAndLast,
    OneFolder,
    Shards,
    Renamed,
    kinds
  };
  static constexpr int saves = 12;

  Kind run() {
    for (int save = 1; save <= saves; ++save) {
      for (const auto& [gap, name, open] : files_of(save)) write(gap, name, open, save);
      rest(pause_);
      if (save <= lives_) start_again();
    }
    return kind_;
  }
  std::set<int> captured;  // whole saves
  std::string mixture;     // the first one

 private:
  struct Step {
    int gap;
    std::string name;
    int open;
  };
  int between(double low, double high) {  // milliseconds, of a power of ten
    return static_cast<int>(
        1000 * std::pow(10, low + (high - low) * static_cast<double>(dice_() % 10'000) / 10'000));
  }
  static std::string letter(std::size_t i) { return {static_cast<char>('a' + i)}; }
  std::vector<std::size_t> order(std::size_t fixed) {  // of ranks: any
    std::vector<std::size_t> all(files_);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin() + static_cast<std::ptrdiff_t>(fixed), all.end(), dice_);
    return all;
  }
  std::vector<Step> files_of(int save) {
    const std::string number = std::to_string(10 * save);
    const std::string folder = kind_ == OneFolder ? "ckpt/" : "checkpoint-" + number + "/";
    const bool led = kind_ == ModelAndRanks || kind_ == NumberedAndRanks;
    const std::size_t fixed = kind_ == Ranks ? 0 : led ? 1 : files_;
    std::vector<Step> steps;
    const bool in_folders = kind_ == Folders || kind_ == FoundFolders;
    if (kind_ == Once && save == 1) steps.push_back({0, "once.json", 10});
    if (in_folders || kind_ == OneFolder) steps.push_back({0, folder + "config.json", 10});
    if (kind_ == EpochsAndLast)
      return {{0, "epoch=" + std::to_string(save) + "-step=" + number + ".ckpt", open_[0]},
              {gaps_[1], "last.ckpt", open_[1]}};
    std::size_t at = 0;
    for (const std::size_t i : order(fixed)) {
      std::string name = letter(i) + ".pt";
      if (i >= fixed) name = "rank_" + std::to_string(i) + ".pt";
      if (kind_ == Numbered || kind_ == Found || (kind_ == LastIsNumbered && i == files_ - 1) ||
          (kind_ == NumberedAndRanks && i == 0))
        name = letter(i) + "_" + number + ".pt";
      if (in_folders) name = folder + "rng_" + std::to_string(i) + ".pth";
      if (kind_ == OneFolder) name = folder + letter(i);
      if (kind_ == Renamed) name += ".tmp" + (i == 0 ? number : "");
      if (kind_ == Shards)
        name = "model-0000" + std::to_string(i) + "-of-0000" + std::to_string(files_) + ".pt";
      const int unsteady = 8 + static_cast<int>((7 * static_cast<std::size_t>(save) + 3 * i) % 5);
      steps.push_back({gaps_[at++] * unsteady / 10, std::move(name), open_[i]});
    }
    if (kind_ == Best && dice_() % 3 == 0) steps.push_back({50, "best.pt", 100});
    if (kind_ == FirstTwice) steps.push_back({gaps_[1], "a.pt", 20});
    if (in_folders) steps.push_back({gaps_[1], folder + "state.json", 10});
    if (kind_ == OneFolder) steps.push_back({gaps_[1], folder + "config.json", 10});
    if (kind_ == Shards) steps.push_back({gaps_[1], "optimizer.pt", 10});
    // A guard that comes later lists the first save, in another order.
    if (save == 1 && (kind_ == Found || kind_ == FoundFolders)) std::ranges::reverse(steps);
    return steps;
  }
  void write(int gap, const std::string& name, int open, int save) {
    rest(gap);
    moments_.wrote(name, false, now_);
    is_open_ = true;
    rest(open);
    is_open_ = false;
    if (kind_ == Renamed) moments_.removed(name, now_);
    const std::string renamed = name.substr(0, name.find(".tmp"));
    there_[renamed] = save;
    moments_.wrote(renamed, true, now_);
  }
  // Does what the guard does.
  void rest(int length) {
    const auto until = now_ + milliseconds(length);
    for (auto left = moments_.wait(now_); left && now_ + *left <= until && !is_open_;
         left = moments_.wait(now_)) {
      now_ += *left;
      for (const auto& [name, save] : there_)
        if (!moments_.in_flux().contains(name)) kept_[name] = save;
      std::erase_if(kept_, [this](const auto& one) { return !there_.contains(one.first); });
      moments_.captured();
      judge();
    }
    now_ = until;
  }
  // The trainer is killed. What the guard makes of it is there for the next one.
  void start_again() {
    (moments_.is_sure() ? kept_ : there_) = moments_.is_sure() ? there_ : kept_;
    judge();
    moments_ = Moments(moments_.learned());
    rest(10'000);
  }
  void judge() {
    std::map<std::string, int> newest;  // a series shows its newest
    for (const auto& [name, save] : kept_) {
      if (name.starts_with("once") || name.starts_with("best")) continue;
      const bool is_series = name.starts_with("checkpoint-") || name.starts_with("epoch=") ||
                             (name[1] == '_' && name[0] != 'r');
      const auto slash = name.find('/');
      const std::string key = !is_series           ? name
                              : slash == name.npos ? name.substr(0, 1)
                                                   : name.substr(slash);
      newest[key] = std::max(newest[key], save);
    }
    if (newest.empty()) return;
    const auto [low, high] = std::ranges::minmax(std::views::values(newest));
    const bool whole = low == high && newest.size() >= most_;
    most_ = std::max(most_, newest.size());
    if (whole) captured.insert(low);
    if (whole || low == 1 || !mixture.empty()) return;
    for (const auto& [name, save] : newest) mixture += name + " " + std::to_string(save) + ", ";
  }

  std::mt19937 dice_;
  std::size_t files_;
  std::vector<int> gaps_, open_;
  int pause_, lives_;
  Kind kind_;
  std::size_t most_ = 0;  // files that were there at once
  Moments moments_;
  Moments::Time now_{std::chrono::hours(1)};
  bool is_open_ = false;
  std::map<std::string, int> there_, kept_;
};

TEST(Scripts, AreNeverCapturedBetweenTwoSaves) {
  std::set<int> seen;
  for (std::uint32_t seed = 0; seed < 3'000; ++seed) {
    Script script(seed);
    const int kind = script.run();
    seen.insert(kind);
    ASSERT_EQ(script.mixture, "") << "seed " << seed << ", kind " << kind;
    ASSERT_GE(script.captured.size(), Script::saves - 4) << "seed " << seed << ", kind " << kind;
  }
  EXPECT_EQ(seen.size(), std::size_t{Script::kinds});
}

TEST(Shapes, HaveNoNumbers) {
  EXPECT_EQ(shape_of("epoch=12-step=300.ckpt"), "epoch=#-step=#.ckpt");
  EXPECT_EQ(numbers_in("epoch=12-step=300.ckpt"), (std::vector<std::string>{"12", "300"}));
  EXPECT_EQ(shape_of("last.ckpt"), "last.ckpt");
}

}  // namespace
}  // namespace spotter::guard
