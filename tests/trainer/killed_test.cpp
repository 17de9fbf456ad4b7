// SIGKILL at 200 random instants of training: while it starts, computes, writes. The end is always
// that of a run that was never touched, to the bit.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "tests/trainer/events.hpp"
#include "tests/trainer/run_trainer.hpp"
#include "tests/trainer/scratch.hpp"
#include "tests/trainer/small_mnist.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::test {
namespace {

constexpr int kKills = 200;
constexpr std::uint64_t kLongestLife = 700;  // milliseconds: about as many to start as to train

class Killed : public ::testing::Test {
 protected:
  void SetUp() override { write_small_mnist(scratch_.path() / "data"); }
  std::string place(const std::string& name) const { return (scratch_.path() / name).string(); }
  std::vector<std::string> arguments(const std::string& name) const {
    return {"--data",
            place("data"),
            "--checkpoints",
            place(name + "/c"),
            "--result",
            place(name + "/result"),
            "--batch-size",
            "32",
            "--epochs",
            "60",
            "--hidden",
            "32,16",
            "--slow-down",
            "2",
            "--checkpoint-every",
            "3"};
  }
  void expect_same_end(const std::string& name) const {
    for (const char* file : {"model.safetensors", "model.pt", "metrics.json", "training.csv"}) {
      EXPECT_TRUE(read_file(place("whole/result/" + std::string(file))) ==
                  read_file(place(name + "/result/" + file)))
          << name << ": " << file;
    }
    EXPECT_EQ(events_in(place("whole/result/tensorboard")),
              events_in(place(name + "/result/tensorboard")))
        << name;
    std::filesystem::remove_all(place(name));
  }

  Scratch scratch_;
};

TEST_F(Killed, AtTwoHundredInstantsItEndsAsIfNothingHadBeen) {
  const auto output = place("output");
  ASSERT_EQ(Trainer(arguments("whole"), output).wait(), 0) << read_file(output);
  train::Sequence random(20261121);
  int kills = 0;
  int runs = 0;
  std::uint64_t newest = 0;  // of this run: what was durable must stay
  while (kills < kKills) {
    const std::string name = "run" + std::to_string(runs);
    Trainer trainer(arguments(name), output);
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(kLongestLife)));
    trainer.signal(SIGKILL);
    const int status = trainer.wait();
    if (status == 0) {  // it was done before
      expect_same_end(name);
      ++runs;
      newest = 0;
      continue;
    }
    ASSERT_EQ(status, -SIGKILL) << read_file(output);
    ++kills;
    const auto found = checkpoint::latest(place(name + "/c"));
    ASSERT_TRUE(found) << found.error().message;
    const std::uint64_t step = found->newest ? found->newest->step : 0;
    ASSERT_GE(step, newest) << "a durable checkpoint is lost";
    newest = step;
  }
  const std::string last = "run" + std::to_string(runs);
  ASSERT_EQ(Trainer(arguments(last), output).wait(), 0) << read_file(output);
  expect_same_end(last);
  std::printf("%d kills in %d runs\n", kills, runs + 1);
}

}  // namespace
}  // namespace spotter::test
