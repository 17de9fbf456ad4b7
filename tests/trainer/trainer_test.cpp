// The real spotter-train, interrupted in every way: the end is always the same, to the bit.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <sstream>
#include <thread>

#include "tests/trainer/events.hpp"
#include "tests/trainer/run_trainer.hpp"
#include "tests/trainer/scratch.hpp"
#include "tests/trainer/small_cifar10.hpp"
#include "tests/trainer/small_mnist.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/session.hpp"
#include "trainer/reference/parameters.hpp"

namespace spotter::test {
namespace {

namespace fs = std::filesystem;

constexpr int kStopped = checkpoint::kStoppedStatus;
constexpr std::uint64_t kSteps = 40;  // 4 epochs of 10 steps

class TrainerRun : public ::testing::Test {
 protected:
  void SetUp() override { write_small_mnist(scratch_.path() / "data"); }

  std::vector<std::string> arguments(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"--data",        place("data"),
                                    "--checkpoints", place(name + "/c"),
                                    "--result",      place(name + "/result"),
                                    "--batch-size",  "32",
                                    "--epochs",      "4",
                                    "--hidden",      "32,16"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  int run(const std::string& name, const std::vector<std::string>& more = {}) {
    return Trainer(arguments(name, more), place("output")).wait();
  }
  std::string place(const std::string& name) const { return (scratch_.path() / name).string(); }
  std::string output() const { return read_file(place("output")); }

  void expect_same_result(const std::string& one, const std::string& other) {
    for (const char* file : {"model.safetensors", "model.pt", "metrics.json", "training.csv"}) {
      EXPECT_TRUE(read_file(place(one + "/result/" + file)) ==
                  read_file(place(other + "/result/" + file)))
          << file;
    }
    const auto events = events_in(place(one + "/result/tensorboard"));
    EXPECT_FALSE(events.empty());
    EXPECT_EQ(events, events_in(place(other + "/result/tensorboard")))
        << "no row twice, or missing";
  }
  std::vector<std::uint64_t> steps_logged(const std::string& path) const {
    std::vector<std::uint64_t> steps;
    if (!fs::exists(path)) return steps;
    std::istringstream lines(read_file(path));
    for (std::uint64_t step = 0; lines >> step;) steps.push_back(step);
    return steps;
  }
  // Waits until `count` steps were executed in all; false after a minute without them.
  bool wait_for_steps(const std::string& path, std::size_t count) const {
    for (int time = 0; time < 6000; ++time) {
      if (steps_logged(path).size() >= count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  Scratch scratch_;
};

TEST_F(TrainerRun, LearnsAndLeavesAWholeResult) {
  ASSERT_EQ(run("a"), 0) << output();
  const auto metrics = nlohmann::json::parse(read_file(place("a/result/metrics.json")));
  EXPECT_EQ(metrics["steps"], kSteps);
  EXPECT_GT(metrics["accuracy"], 0.9);
  std::istringstream log(read_file(place("a/result/training.csv")));
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "epoch,loss,accuracy,val_loss,val_accuracy");
  for (int epoch = 1; epoch <= 4; ++epoch) {
    EXPECT_TRUE(lines[epoch].starts_with(std::to_string(epoch) + ",")) << lines[epoch];
  }
  const std::string weights = read_file(place("a/result/model.safetensors"));
  auto tensors = nlohmann::json::parse(weights.substr(8, weights.find("}}", 8) + 2 - 8));
  tensors.erase("__metadata__");
  EXPECT_EQ(tensors.size(), 8U) << "weight and bias of 512, 32, 16 and 10 nodes";
}

// All datagrams that come to a socket, in their order.
class Ear {
 public:
  explicit Ear(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    thread_ = std::thread([this] {
      std::array<char, 4096> buffer{};
      for (ssize_t size = 1; size > 0;) {
        size = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (size > 0) all_.emplace_back(buffer.data(), static_cast<std::size_t>(size));
      }
    });
  }
  ~Ear() { all(); }
  std::vector<std::string> all() {
    ::shutdown(socket_.get(), SHUT_RD);  // what came is still read
    if (thread_.joinable()) thread_.join();
    return all_;
  }

 private:
  checkpoint::Descriptor socket_;
  std::vector<std::string> all_;
  std::thread thread_;
};

TEST_F(TrainerRun, ReportsWhatItFindsOnTheTestImages) {
  Ear ear(place("sock"));
  ASSERT_EQ(Trainer(arguments("a"), place("output"), {"NOTIFY_SOCKET=" + place("sock")}).wait(), 0)
      << output();
  std::string last;
  for (const std::string& each : ear.all())
    if (each.find("X_SPOTTER_METRIC=") != std::string::npos) last = each;
  const auto metrics = nlohmann::json::parse(read_file(place("a/result/metrics.json")));
  char expected[128];
  std::snprintf(expected, sizeof expected,
                "X_SPOTTER_METRIC=val_accuracy %.6g\nX_SPOTTER_METRIC=val_loss %.6g\n",
                metrics["accuracy"].get<double>(), metrics["loss"].get<double>());
  EXPECT_NE(last.find("X_SPOTTER_STEP=40\nX_SPOTTER_STEPS_TOTAL=40\nX_SPOTTER_EPOCH=4\n"),
            std::string::npos)
      << last;
  EXPECT_TRUE(last.ends_with(expected)) << last << expected;
}

TEST_F(TrainerRun, TwoRunsOfOneSeedAreEqualAndThoseOfAnotherAreNot) {
  ASSERT_EQ(run("a"), 0) << output();
  ASSERT_EQ(run("b"), 0) << output();
  expect_same_result("a", "b");
  ASSERT_EQ(run("c", {"--seed", "2"}), 0) << output();
  EXPECT_FALSE(read_file(place("a/result/model.safetensors")) ==
               read_file(place("c/result/model.safetensors")));
}

// Ten interruptions, at steps drawn from a seed; every other one without a notice.
TEST_F(TrainerRun, InterruptedTenTimesItEndsAsIfNothingHadBeen) {
  // Long enough that ten interruptions never reach the end.
  const std::vector<std::string> longer = {"--epochs", "12"};
  constexpr std::uint64_t kAll = 120;
  ASSERT_EQ(run("whole", longer), 0) << output();
  const std::string log = place("steps");
  const std::vector<std::string> more = {"--steps-log",        log, "--slow-down", "15",
                                         "--checkpoint-every", "3", "--epochs",    "12"};
  train::Sequence random(20240601);
  std::uint64_t repeated = 0;
  for (int time = 0; time < 10; ++time) {
    const int signal = time % 2 == 0 ? SIGTERM : SIGKILL;
    Trainer trainer(arguments("cut", more), place("output"));
    const auto before = steps_logged(log).size();
    ASSERT_TRUE(wait_for_steps(log, before + 1 + random.below(5))) << output();
    trainer.signal(signal);
    ASSERT_EQ(trainer.wait(), signal == SIGTERM ? kStopped : -SIGKILL) << output();
    const auto last = steps_logged(log).back();
    const auto newest = checkpoint::latest(place("cut/c"))->newest;
    const std::uint64_t resumed = newest ? newest->step : 0;
    if (signal == SIGTERM) {
      EXPECT_EQ(resumed, last) << "a stop on request repeats nothing";
    }
    // Two copies may be in flight, a third just due.
    EXPECT_LE(last - resumed, 9U) << "a kill repeats what came since the last durable checkpoint";
    repeated += last - resumed;
  }
  ASSERT_EQ(run("cut", more), 0) << output();
  expect_same_result("whole", "cut");
  EXPECT_EQ(steps_logged(log).size(), kAll + repeated);
}

TEST_F(TrainerRun, EveryStopSignalStopsBehindADurableCheckpoint) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}) {
    const std::string name = "signal" + std::to_string(signal);
    const std::string log = place(name + ".steps");
    Trainer trainer(arguments(name, {"--steps-log", log, "--slow-down", "50"}), place("output"));
    ASSERT_TRUE(wait_for_steps(log, 2)) << output();
    trainer.signal(signal);
    ASSERT_EQ(trainer.wait(), kStopped) << output();
    EXPECT_EQ(checkpoint::latest(place(name + "/c"))->newest->step, steps_logged(log).back());
  }
}

// Stopped within the last step of an epoch it does not evaluate first: the epoch's row is made
// when it goes on. Here each epoch is one step.
TEST_F(TrainerRun, StoppedAtTheEndOfAnEpochItMakesTheRowWhenItGoesOn) {
  const std::vector<std::string> epochs = {"--batch-size", "1000"};
  ASSERT_EQ(run("whole", epochs), 0) << output();
  const std::string log = place("steps");
  auto slow = epochs;
  slow.insert(slow.end(), {"--steps-log", log, "--slow-down", "60000"});
  for (std::uint64_t step = 1; step <= 4; ++step) {
    Trainer trainer(arguments("cut", slow), place("output"));
    ASSERT_TRUE(wait_for_steps(log, step)) << output();
    trainer.signal(SIGTERM);
    ASSERT_EQ(trainer.wait(), kStopped) << output();
    const auto newest = checkpoint::latest(place("cut/c"))->newest;
    ASSERT_EQ(newest->step, step);
    EXPECT_GT(newest->meta["epoch"]["count"], 0) << "not evaluated yet";
  }
  ASSERT_EQ(run("cut", slow), 0) << output();
  expect_same_result("whole", "cut");
  EXPECT_EQ(steps_logged(log).size(), 4U);
}

TEST_F(TrainerRun, ACheckpointOfAnEarlierFormatIsRefusedWithWhatToDo) {
  const std::array parts = {checkpoint::Part{"model.bin", "SPOTTERW"},
                            checkpoint::Part{"optimizer.pt", "?"},
                            checkpoint::Part{"training.csv", "epoch\n"}};
  ASSERT_TRUE(checkpoint::save(place("a/c"), 10, parts, {}));
  EXPECT_EQ(run("a"), 1);
  EXPECT_NE(output().find("of an earlier version of spotter-train"), std::string::npos) << output();
  EXPECT_NE(output().find("another --checkpoints"), std::string::npos) << output();
}

TEST_F(TrainerRun, ASecondOneOnTheSameCheckpointsIsRefusedAndCostsTheFirstNothing) {
  ASSERT_EQ(run("whole"), 0) << output();
  const std::string log = place("steps");
  Trainer first(arguments("a", {"--steps-log", log, "--slow-down", "100"}), place("first"));
  ASSERT_TRUE(wait_for_steps(log, 2));
  EXPECT_EQ(run("a"), 1);
  EXPECT_NE(output().find("another trainer saves into"), std::string::npos) << output();
  first.signal(SIGTERM);
  ASSERT_EQ(first.wait(), kStopped) << read_file(place("first"));
  ASSERT_EQ(run("a"), 0) << output();
  expect_same_result("whole", "a");
}

TEST_F(TrainerRun, WhereAllCheckpointsAreTornItSaysWhatToDoAndStartsNothing) {
  ASSERT_EQ(run("a", {"--epochs", "2"}), 0) << output();
  for (const auto& entry : fs::directory_iterator(place("a/c"))) {
    if (entry.is_directory()) fs::resize_file(entry.path() / "model.safetensors", 100);
  }
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(run("a", {"--steps-log", place("steps")}), 1);
    EXPECT_NE(output().find("all are torn"), std::string::npos) << output();
    EXPECT_NE(output().find("To start from scratch"), std::string::npos) << output();
    fs::remove(place("output"));
  }
  EXPECT_TRUE(steps_logged(place("steps")).empty());
}

TEST_F(TrainerRun, StartedAgainAfterTheEndItOnlyMakesSureOfTheResult) {
  ASSERT_EQ(run("a", {"--steps-log", place("steps")}), 0) << output();
  const std::string weights = read_file(place("a/result/model.safetensors"));
  fs::remove_all(place("a/result"));
  ASSERT_EQ(run("a", {"--steps-log", place("steps")}), 0) << output();
  EXPECT_TRUE(read_file(place("a/result/model.safetensors")) == weights);
  EXPECT_EQ(steps_logged(place("steps")).size(), kSteps);
}

TEST_F(TrainerRun, ATornCheckpointIsReportedAndNotResumedFrom) {
  ASSERT_EQ(run("whole"), 0) << output();
  ASSERT_EQ(run("a", {"--epochs", "3"}), 0) << output();
  const auto newest = checkpoint::latest(place("a/c"))->newest->path;
  fs::resize_file(newest / "model.safetensors", 100);
  ASSERT_EQ(run("a"), 0) << output();
  EXPECT_NE(output().find("torn checkpoint step-000000000030"), std::string::npos) << output();
  expect_same_result("whole", "a");
}

TEST_F(TrainerRun, ACheckpointOfAnotherRunIsRefused) {
  ASSERT_EQ(run("a"), 0) << output();
  EXPECT_EQ(run("a", {"--dropout", "0.3", "--seed", "9"}), 1);
  EXPECT_NE(output().find("dropout_rate was 0.2, is 0.3; seed was 1, is 9"), std::string::npos)
      << output();
  EXPECT_EQ(run("a", {"--epochs", "2"}), 1);
  write_set(place("data"), "train", 300, 77);
  EXPECT_EQ(run("a"), 1);
  EXPECT_NE(output().find("other data"), std::string::npos) << output();
}

TEST_F(TrainerRun, BadUsageIsTwoAndBadDataIsOne) {
  EXPECT_EQ(run("a", {"--unknown"}), 2);
  EXPECT_EQ(run("a", {"--epochs", "none"}), 2);
  EXPECT_EQ(run("a", {"--parameters", R"({"epoch": 1})"}), 2);
  EXPECT_EQ(Trainer({"--data", place("data")}, place("output")).wait(), 2);
  fs::remove(place("data/t10k-labels-idx1-ubyte"));
  EXPECT_EQ(run("a"), 1);
  EXPECT_NE(output().find("scripts/fetch-mnist"), std::string::npos) << output();
}

TEST_F(TrainerRun, PlacesAndParametersComeFromTheEnvironmentToo) {
  Trainer trainer(
      {"--data", place("data"), "--batch-size", "32"}, place("output"),
      {"SPOTTER_STORAGE=" + place("s"), "SPOTTER_CHECKPOINTS=" + place("s/c"),
       R"(SPOTTER_PARAMETERS={"epochs": "1", "hidden_nodes": [16], "batch_size": 64})"});
  ASSERT_EQ(trainer.wait(), 0) << output();
  const auto metrics = nlohmann::json::parse(read_file(place("s/result/metrics.json")));
  EXPECT_EQ(metrics["parameters"]["hidden_nodes"], nlohmann::json({16}));
  EXPECT_EQ(metrics["parameters"]["batch_size"], 32) << "the command line has the last word";
  EXPECT_EQ(metrics["steps"], 10);
}

// Batch norms and Adam have memories of their own.
TEST_F(TrainerRun, AResidualNetworkResumesToTheBit) {
  write_small_cifar10(place("cifar10"));
  const std::vector<std::string> more = {"--data",  place("cifar10"), "--model",
                                         "resnet8", "--epochs",       "2"};
  ASSERT_EQ(run("whole", more), 0) << output();
  const std::string log = place("steps");
  auto slow = more;
  slow.insert(slow.end(), {"--steps-log", log, "--checkpoint-every", "1"});
  for (const int signal : {SIGTERM, SIGKILL}) {
    Trainer trainer(arguments("cut", slow), place("output"));
    ASSERT_TRUE(wait_for_steps(log, steps_logged(log).size() + 2)) << output();
    trainer.signal(signal);
    ASSERT_EQ(trainer.wait(), signal == SIGTERM ? kStopped : -SIGKILL) << output();
  }
  ASSERT_EQ(run("cut", slow), 0) << output();
  expect_same_result("whole", "cut");
}

TEST_F(TrainerRun, MixedPrecisionLearnsAndResumesToTheBit) {
  const std::vector<std::string> more = {"--amp"};
  ASSERT_EQ(run("whole", more), 0) << output();
  const auto metrics = nlohmann::json::parse(read_file(place("whole/result/metrics.json")));
  EXPECT_GT(metrics["accuracy"], 0.9);
  EXPECT_EQ(metrics["parameters"]["amp"], true);
  ASSERT_EQ(run("exact"), 0) << output();
  EXPECT_NE(read_file(place("whole/result/training.csv")),
            read_file(place("exact/result/training.csv")))
      << "bfloat16 has eight bits of float32's twenty-four";
  const std::string log = place("steps");
  Trainer trainer(arguments("cut", {"--amp", "--steps-log", log, "--slow-down", "50"}),
                  place("output"));
  ASSERT_TRUE(wait_for_steps(log, 15)) << output();
  trainer.signal(SIGTERM);
  ASSERT_EQ(trainer.wait(), kStopped) << output();
  EXPECT_EQ(run("cut"), 1) << "without --amp it is another run";
  ASSERT_EQ(run("cut", more), 0) << output();
  expect_same_result("whole", "cut");
}

TEST_F(TrainerRun, TheModelsOwnExampleIsItsDefault) {
  write_small_cifar10(place("cifar10"));
  ASSERT_EQ(run("a", {"--data", place("cifar10"), "--parameters",
                      R"({"model": "resnet8", "learning_rate": 0.01})"}),
            0)
      << output();
  const auto parameters =
      nlohmann::json::parse(read_file(place("a/result/metrics.json")))["parameters"];
  EXPECT_EQ(parameters["model"], "resnet8");
  EXPECT_EQ(parameters["optimizer"], "adam");
  EXPECT_EQ(parameters["learning_rate"], 0.01);
  EXPECT_EQ(run("b", {"--device", "cuda:0,cuda:1"}), 2);
  EXPECT_NE(output().find("there is no device `cuda:0,cuda:1`"), std::string::npos) << output();
  EXPECT_EQ(run("b", {"--device", "cuda:99"}), 2);
  EXPECT_NE(output().find("cuda:99 is not there"), std::string::npos) << output();
}

}  // namespace
}  // namespace spotter::test
