#include "agent/host/ledger.hpp"

#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

using LedgerFile = Directory;

TEST_F(LedgerFile, IsZeroWhenMissingAndWhatWasWrittenAfter) {
  const auto none = read_ledger(directory_);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->ledger.starts, 0U);
  EXPECT_EQ(none->warning, "");
  EXPECT_EQ(kind_of(write_ledger(directory_, {})), "not-mounted");
  fs::create_directory(directory_ / ".spotter");
  ASSERT_TRUE(write_ledger(directory_,
                           {2, 2345, 12.5, 0.75, 4, 3, true, 5, 6, 1.5, true, false, 0, 2400, 55}));
  const auto read = read_ledger(directory_)->ledger;
  EXPECT_EQ(read.attempts_without_progress, 2U);
  EXPECT_EQ(read.newest_step, 2345U);
  EXPECT_EQ(read.seconds, 12.5);
  EXPECT_EQ(read.dollars, 0.75);
  EXPECT_EQ(read.starts, 4U);
  EXPECT_EQ(read.failures, 3U);
  EXPECT_TRUE(read.done);
  EXPECT_EQ(read.losses, 5U);
  EXPECT_EQ(read.releases, 6U);
  EXPECT_EQ(read.stall, 1.5);
  EXPECT_TRUE(read.running);
  EXPECT_EQ(read.reached, 2400U);
  EXPECT_EQ(read.repeated, 55U);
}

TEST_F(LedgerFile, CountsTheTrainersThatWereStarted) {
  fs::create_directory(directory_ / ".spotter");
  const auto trainers_after = [this](bool running, std::uint64_t losses) {
    EXPECT_TRUE(write_ledger(directory_, {.losses = losses, .running = running}));
    return read_ledger(directory_)->ledger.trainers;
  };
  EXPECT_EQ(trainers_after(false, 0), 0U);
  EXPECT_EQ(trainers_after(true, 0), 1U);
  EXPECT_EQ(trainers_after(true, 0), 1U) << "a minute later";
  EXPECT_EQ(trainers_after(false, 0), 1U) << "it was asked to end";
  EXPECT_EQ(trainers_after(true, 0), 2U);
  EXPECT_EQ(trainers_after(true, 1), 3U) << "that one was lost with its machine";
  EXPECT_EQ(trainers_after(false, 2), 3U) << "that one crashed, and was the last";
}

TEST_F(LedgerFile, ThatIsDamagedIsMovedAsideAndSaidSo) {
  for (const char* damage : {"", "{\"starts\":", "[]", "{\"done\":3}", "{\"running\":1}",
                             "{\"stall\":-1}", "{\"starts\":-1}"}) {
    const auto path = write(".spotter/ledger.json", damage);
    const auto read = read_ledger(directory_);
    ASSERT_TRUE(read) << words_of(read);
    EXPECT_EQ(read->ledger.starts, 0U);
    EXPECT_NE(read->warning.find("ledger.damaged-"), std::string::npos) << damage;
    EXPECT_FALSE(fs::exists(path));
  }
}

TEST_F(LedgerFile, OfANewerSpotterIsRead) {
  write(".spotter/ledger.json", R"({"starts":7,"gpu_hours":3.5})");
  EXPECT_EQ(read_ledger(directory_)->ledger.starts, 7U);
}

}  // namespace
}  // namespace spotter::act::host
