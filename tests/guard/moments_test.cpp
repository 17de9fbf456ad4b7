// When a directory is as its script means to leave it, on virtual time.
#include "agent/guard/moments.hpp"

#include <gtest/gtest.h>

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
    if (epoch <= 2) write("weights/best.pt");
    rest(1000);
    look();
    rest(5000);
  }
  write("weights/last.pt");
  EXPECT_TRUE(look());
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
  for (int save = 0; save < 5; ++save) {
    write("rank0.pt");
    rest(100);
    EXPECT_FALSE(look()) << save;
    write("rank1.pt");
    if (save > 2) {
      EXPECT_TRUE(look()) << save;
    }
    rest(1'000);
    look();
    rest(20'000);
    look();
  }
}

TEST_F(Quiet, AModelAndFilesOfRanksThatAreWrittenOverAreOneSet) {
  for (int save = 0; save < 5; ++save) {
    for (const char* name : {"model.pt", "rank0.pt", "rank1.pt", "rank2.pt"}) {
      EXPECT_FALSE(save > 1 && look()) << save << name;
      write(name);
      rest(100);
    }
    rest(900);
    EXPECT_TRUE(look()) << save;
    rest(20'000);
    look();
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

TEST(Shapes, HaveNoNumbers) {
  EXPECT_EQ(shape_of("epoch=12-step=300.ckpt"), "epoch=#-step=#.ckpt");
  EXPECT_EQ(numbers_in("epoch=12-step=300.ckpt"), (std::vector<std::string>{"12", "300"}));
  EXPECT_EQ(shape_of("last.ckpt"), "last.ckpt");
}

}  // namespace
}  // namespace spotter::guard
