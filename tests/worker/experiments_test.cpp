// A machine on which processes of an experiment live on begins no other one.
#include "agent/service/sweep/experiments.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/supervise/processes.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter {
namespace {

namespace fs = std::filesystem;

constexpr Duration patience{300};

class Machine : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/worker-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    end_process();
    fs::remove_all(directory_);
  }

  // Leaves a process of an experiment whose supervisor has ended, and could not end this process.
  void leave_process() {
    process_ = ::fork();
    if (process_ == 0) {
      ::pause();
      ::_exit(0);
    }
    const auto ticks = supervise::find_process(process_).value().start_ticks;
    leave(1, R"({"version": 1, "exit_code": 0, "core_dumped": false, "out_of_memory": false, )"
             R"("last_words": "", "ended_boottime_ms": 1, "ran_ms": 1, "trainer_pid": 1, )"
             R"("job": "j", "boot_id": ")" +
                 supervise::boot_id() + R"(", "left_over": [{"pid": )" + std::to_string(process_) +
                 R"(, "start_ticks": )" + std::to_string(ticks) + "}]}");
  }
  void leave(int token, const std::string& end) {
    const fs::path of = directory_ / ("of-3-" + std::to_string(token));
    fs::create_directory(of);
    fs::permissions(of, fs::perms::owner_all);
    std::ofstream(of / "ended.json") << end;
  }
  void end_process() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  // Runs to its end what a worker does.
  template <class T>
  T run(asio::awaitable<T> what) {
    std::optional<T> result;
    asio::co_spawn(
        context_, [&]() -> asio::awaitable<void> { result = co_await std::move(what); },
        asio::detached);
    finish();
    return result.value();
  }
  void run(asio::awaitable<void> what) {
    asio::co_spawn(context_, std::move(what), asio::detached);
    finish();
  }
  void finish() {
    context_.restart();
    context_.run_for(std::chrono::seconds(30));
  }

  asio::io_context context_{1};
  fs::path directory_;
  pid_t process_ = 0;
};

TEST_F(Machine, BeginsNoExperimentBesideAProcessThatDoesNotEnd) {
  leave_process();
  Experiments experiments(context_, "job.yaml", directory_, patience);
  run(experiments.clear());
  EXPECT_TRUE(experiments.is_stuck());
  const auto turn = experiments.begin(4, 1, Time(Duration(1)));
  EXPECT_EQ(run(experiments.run(turn)), EX_UNAVAILABLE);
  EXPECT_FALSE(experiments.runs());
}

// Also where another worker was here meanwhile, and has collected how the trainer ended.
TEST_F(Machine, KnowsOfItWhenItsWorkerIsStartedAgain) {
  leave_process();
  for (int worker = 0; worker < 2; ++worker) {
    Experiments experiments(context_, "job.yaml", directory_, patience);
    run(experiments.clear());
    EXPECT_TRUE(experiments.is_stuck()) << worker;
  }
  end_process();
  Experiments experiments(context_, "job.yaml", directory_, patience);
  run(experiments.clear());
  EXPECT_FALSE(experiments.is_stuck());
  EXPECT_FALSE(fs::exists(directory_ / "of-3-1"));
}

// It names nobody, so nobody is waited for.
TEST_F(Machine, IsNotUnfitForARecordThatCannotBeRead) {
  leave(1, "{");
  Experiments experiments(context_, "job.yaml", directory_, patience);
  run(experiments.clear());
  EXPECT_FALSE(experiments.is_stuck());
  EXPECT_FALSE(fs::exists(directory_ / "of-3-1"));
}

TEST_F(Machine, LeavesInTimeAlsoWhereSomethingLivesOn) {
  leave_process();
  Experiments experiments(context_, "job.yaml", directory_, std::chrono::hours(1));
  asio::post(context_, [&experiments] { experiments.hurry(); });
  run(experiments.clear());
  EXPECT_TRUE(context_.stopped()) << "it still waits";
  EXPECT_FALSE(experiments.is_stuck());
  EXPECT_TRUE(fs::exists(directory_ / "of-3-1"));
}

}  // namespace
}  // namespace spotter
