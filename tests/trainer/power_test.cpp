// Power lost at every point of a run of saves, and calls that fail: what was acknowledged is there,
// whole; and nothing else is ever taken for a checkpoint.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/trainer/lost_power.hpp"
#include "tests/trainer/power_story.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::Call;
using test::Recording;
using test::Shim;

using namespace power;  // NOLINT: the story is these tests' own

class Power : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(memory_ / "recorded");
    recording_.emplace(memory_ / "recorded");
    run(memory_ / "recorded/c",
        [this](const Durable& durable) { recording_->acknowledge(durable.step); });
    recording_->stop();
  }
  std::string after(std::size_t cut, const Recording::Choice& choice, std::uint64_t seed) {
    std::mt19937_64 random(seed * 1'000'003 + cut);
    recording_->materialise(cut, choice, random, disk_);
    const auto wrong = wrong_with(disk_ / "c", recording_->acknowledged(cut));
    if (wrong.empty()) return "";
    return wrong + "; acknowledged " + std::to_string(recording_->acknowledged(cut)) +
           ", cut before call " + std::to_string(cut) + " of " +
           std::to_string(recording_->size()) + ", seed " + std::to_string(seed);
  }
  void forget() { fs::remove_all(disk_); }

  Memory memory_;
  std::optional<Recording> recording_;
  fs::path disk_ = memory_ / "disk";
};

TEST_F(Power, CutAtEveryPointWhatWasAcknowledgedIsThere) {
  using Model = Recording::Model;
  const Recording::Choice choices[] = {
      {Model::Journal, 0}, {Model::Journal, 1}, {Model::Journal, 0.8}, {Model::Journal, 0.5},
      {Model::Weak, 0},    {Model::Weak, 1},    {Model::Weak, 0.5},    {Model::Weak, 0.5},
      {Model::Weak, 0.9},  {Model::Weak, 0.1},
  };
  ASSERT_EQ(recording_->acknowledged(recording_->size()), kSteps);
  std::size_t disks = 0;
  for (std::size_t cut = 0; cut <= recording_->size(); ++cut) {
    std::uint64_t seed = 0;
    for (const auto& choice : choices) {
      ASSERT_EQ(after(cut, choice, ++seed), "");
      ++disks;
      forget();
    }
  }
  std::printf("%zu disks after a cut at each of %zu calls\n", disks, recording_->size());
}

// The run goes on on such a disk: it is not in the way of the next save.
TEST_F(Power, AfterTheCutTheNextSaveIsDurable) {
  for (std::size_t cut = 0; cut <= recording_->size(); cut += 3) {
    ASSERT_EQ(after(cut, {Recording::Model::Weak, 0.5}, 77), "");
    auto saver = Saver::open({{{disk_ / "c", {.last = 2}}}, {}});
    ASSERT_TRUE(saver) << saver.error().message;
    ASSERT_TRUE(save_step(**saver, kSteps + 1)) << "cut " << cut;
    ASSERT_EQ(wrong_with(disk_ / "c", kSteps + 1), "") << "cut " << cut;
    saver->reset();
    forget();
  }
}

// Would this test notice? On a disk that forgets what was synced it does.
TEST_F(Power, ADiskThatLiesAboutSyncsIsFoundOut) {
  for (const auto model : {Recording::Model::Weak, Recording::Model::Journal}) {
    std::size_t losses = 0;
    for (std::size_t cut = 0; cut <= recording_->size(); ++cut) {
      if (!after(cut, {model, 0.5, false}, 5).empty()) ++losses;
      forget();
    }
    EXPECT_GT(losses, 0U);
  }
}

// Each call of a save fails once, with each of the errors that disks have.
TEST(Faults, WhereverACallFailsNothingIsLostAndTheErrorNamesTheFile) {
  for (const int code : {EIO, ENOSPC, EDQUOT, EROFS, EACCES}) {
    std::size_t calls = 1;
    for (std::size_t failing = 0; failing < calls; ++failing) {
      const Memory memory;
      const fs::path directory = memory / "c";
      fs::create_directories(directory);
      auto saver = Saver::open({{{directory, {.last = 2}}}, {}});
      ASSERT_TRUE(saver && save_step(**saver, 1));
      Shim shim;
      std::atomic<std::size_t> count{0};
      // Every time from then on, as a disk that is full or read-only does.
      shim.before = [&](const Call& call) {
        const bool removes = call.kind == Call::Kind::Unlink;
        return count++ >= failing && !removes ? code : 0;
      };
      shim.install(directory.string());
      const auto saved = save_step(**saver, 2);
      shim.remove();
      calls = std::max<std::size_t>(calls, failing == 0 ? 12 : count.load());
      if (!saved) {
        EXPECT_NE(saved.error().message.find(directory.string()), std::string::npos)
            << saved.error().message;
      }
      ASSERT_EQ(wrong_with(directory, saved ? 2 : 1), "")
          << strerrorname_np(code) << " from call " << failing << " on";
      ASSERT_TRUE(save_step(**saver, 3)) << "it works again, and so does the saver";
      ASSERT_EQ(wrong_with(directory, 3), "");
    }
  }
}

// After a failed fsync the kernel has marked the pages clean: a second fsync of the same file would
// say "durable" of what is not. The directory of checkpoints cannot be made again; there the name
// is written once more before it is asked again.
TEST(Faults, AFailedFsyncIsNeverTriedAgainButTheStateIsWrittenAgain) {
  const Memory memory;
  const fs::path directory = memory / "c";
  fs::create_directories(directory);
  auto saver = Saver::open({{{directory, {.last = 2}}}, {}});
  ASSERT_TRUE(saver && save_step(**saver, 1) && save_step(**saver, 2));
  // The parts, the manifest, the checkpoint's directory, at last that of checkpoints.
  bool last = false;
  for (int which = 0; !last; ++which) {
    ASSERT_LT(which, 10);
    const std::uint64_t step = 3 + static_cast<std::uint64_t>(which);
    Shim shim;
    int syncs = 0;
    std::set<std::uint64_t> failed;
    std::set<std::uint64_t> again;
    std::set<std::uint64_t> again_dirty;
    shim.before = [&](const Call& call) {
      const bool renames = call.kind == Call::Kind::Rename || call.kind == Call::Kind::Exchange;
      if (renames && call.other_name == directory_name(step)) again_dirty.insert(call.directory);
      if (call.kind != Call::Kind::Sync) return 0;
      if (failed.contains(call.node) && !again_dirty.contains(call.node)) again.insert(call.node);
      if (syncs++ != which) return 0;
      failed.insert(call.node);
      again_dirty.erase(call.node);
      return EIO;
    };
    shim.install(directory.string());
    const auto saved = save_step(**saver, step);
    shim.remove();
    ASSERT_TRUE(saved) << saved.error().message;
    EXPECT_EQ(failed.size(), 1U);
    last = failed.contains(0);
    EXPECT_TRUE(again.empty());
    EXPECT_EQ(wrong_with(directory, step), "");
  }
}

}  // namespace
}  // namespace spotter::checkpoint
