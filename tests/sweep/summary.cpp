#include "agent/sweep/summary.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace spotter::sweep {
namespace {

namespace fs = std::filesystem;
using State = Summary::State;

const Set set = {
    {"lr", "0.1", "0.1"}, {"act", "a \"b\"", R"("a \"b\"")"}, {"at", "[1,2]", "[1,2]"}};

TEST(Summary, ReadsWhatItWrites) {
  Summary summary{.index = 42,
                  .parameters = set,
                  .state = State::Stopped,
                  .attempt = 3,
                  .attempts = 4,
                  .seconds = 12.5,
                  .model = "/mnt/tuning/42/model"};
  summary.curve.add({1, 1, 0.5, std::nullopt, 1700000000.25});
  summary.curve.add({7, 2, std::nullopt, 0.125, 1700000001, {{"val_loss", 0.25}}});
  const std::string text = to_json(summary);
  EXPECT_NE(
      text.find(R"("step":7,"epoch":2,"loss":0.5,"accuracy":0.125,"metrics":{"val_loss":0.25})"),
      text.npos)
      << text;
  EXPECT_NE(text.find(R"("val_loss":[null,0.25])"), text.npos) << text;
  const auto read = parse_summary(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(*read), text);
  EXPECT_EQ(read->parameters[1].text, "a \"b\"");
  EXPECT_EQ(read->parameters[2].text, "[1,2]");
  EXPECT_EQ(read->curve.points(), summary.curve.points());
  EXPECT_EQ(to_json(*parse_summary(to_json(Summary()))), to_json(Summary()));
}

// A column that is no metric's, of a later Spotter, is ignored; so is one that does not fit.
TEST(Summary, SkipsColumnsThatAreNoMetrics) {
  Summary summary;
  summary.curve.add({.step = 1, .metrics = {{"val_loss", 0.25}}});
  std::string text = to_json(summary);
  text.replace(text.find("\"time\":["), 1, "\"a b\":[1],\"short\":[],\"text\":[\"x\"],\"");
  const auto read = parse_summary(text);
  ASSERT_TRUE(read) << read.error().message << text;
  EXPECT_EQ(read->curve.last()->metrics, (MetricValues{{"val_loss", 0.25}}));
}

TEST(Summary, OfAnotherKindIsRefused) {
  const std::string good = to_json(Summary());
  ASSERT_TRUE(parse_summary(good));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"version\":1", "\"version\":0"},
           {"\"index\":0", "\"index\":10000"},
           {"waiting", "asleep"},
           {"\"parameters\":{}", "\"parameters\":[]"},
           {"\"parameters\":{}", "\"parameters\":{\"a b\":1}"},
           {"\"loss\":[]", "\"loss\":[1]"},
           {"\"step\":[]", "\"step\":7"},
           {"}", ""}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_FALSE(parse_summary(bad)) << bad;
  }
}

TEST(Summary, OfANewerSpotterIsRefused) {
  std::string newer = to_json(Summary());
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
  const auto summary = parse_summary(newer);
  ASSERT_FALSE(summary);
  EXPECT_NE(summary.error().message.find("the result was written by a newer Spotter (format 2"),
            std::string::npos)
      << summary.error().message;
}

class SummaryFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "spotter-summary-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const fs::path& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  void account(const fs::path& home, const std::string& fields) const {
    write(home / ".spotter/ledger.json", "{" + fields + "}\n");
  }
  Summary look(std::optional<std::uint64_t> winner = {}) const {
    auto summary = sweep::summary_of(folder_, 7, set, winner);
    EXPECT_TRUE(summary) << summary.error().message;
    return summary ? *summary : Summary();
  }
  std::vector<std::uint64_t> steps_seen() const {
    std::vector<std::uint64_t> steps;
    const Summary seen = look();
    for (const auto& point : seen.curve.points()) steps.push_back(point.step);
    return steps;
  }
  fs::path folder_;
};

TEST_F(SummaryFolder, TellsAnExperimentsLife) {
  fs::remove(folder_);
  EXPECT_EQ(look().state, State::Waiting) << "there is no folder yet";
  account("", R"("running":true,"seconds":60.5,"trainers":2)");
  write("metrics.jsonl", "{\"step\":1,\"loss\":0.5,\"time\":1}\n{\"step\":2,\"loss\":0.25,\"ti");
  EXPECT_EQ(look().state, State::Running);
  EXPECT_EQ(look().attempts, 2U);
  EXPECT_EQ(look().seconds, 60.5);
  EXPECT_EQ(look().curve.last()->loss, 0.5) << "half a line is none";
  EXPECT_EQ(look().model, "");
  const auto ledger = folder_ / ".spotter/ledger.json";
  fs::last_write_time(ledger, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(look().state, State::Stopped) << "nobody has written the account for an hour";
  account("", R"("trainers":3,"failures":1)");
  EXPECT_EQ(look().state, State::Failed);
  EXPECT_EQ(look().attempts, 3U);
  account("", R"("trainers":2,"done":true)");
  write("DONE", "{}\n");
  write("model/weights.bin", "weights");
  EXPECT_EQ(look().state, State::Done);
  EXPECT_EQ(look().attempts, 2U);
  EXPECT_EQ(look().model, (folder_ / "model").string());
  EXPECT_EQ(look().index, 7U);
}

TEST_F(SummaryFolder, OfClaimsAddsItsAttemptsUpToTheOneThatCounts) {
  const auto step = [](int number) { return "{\"step\":" + std::to_string(number) + "}\n"; };
  account("attempt-2", R"("trainers":1,"seconds":10)");
  write("attempt-2/metrics.jsonl", step(1) + step(2) + step(3));
  account("attempt-10", R"("trainers":1,"seconds":5)");
  write("attempt-10/metrics.jsonl", step(3) + step(4));
  write("attempt-10/result/weights.bin", "weights");
  account("attempt-11", R"("running":true,"seconds":100)");
  write("attempt-11/metrics.jsonl", step(2));
  write("attempt-x/metrics.jsonl", step(9));
  EXPECT_EQ(look().attempt, 11U);
  EXPECT_EQ(look().state, State::Running);
  EXPECT_EQ(steps_seen(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(look(10).state, State::Stopped) << "not published yet";
  write("attempt-10/DONE", "{}\n");
  EXPECT_EQ(look(10).state, State::Done);
  fs::create_symlink("attempt-10/DONE", folder_ / "DONE");
  EXPECT_EQ(look().attempt, 10U);
  EXPECT_EQ(look().state, State::Done);
  EXPECT_EQ(look().attempts, 2U);
  EXPECT_EQ(look().seconds, 15);
  EXPECT_EQ(look().model, (folder_ / "attempt-10/result").string());
  EXPECT_EQ(steps_seen(), (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST_F(SummaryFolder, SaysWhyItWasStoppedEarly) {
  account("", R"("stopped_early":"6 were better")");
  EXPECT_EQ(look().stopped_early, "") << "its trainer has not ended";
  write("DONE", "{}\n");
  EXPECT_EQ(look().stopped_early, "6 were better");
  EXPECT_STREQ(shown_state(look()), "stopped early");
  const auto read = parse_summary(to_json(look()));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->stopped_early, "6 were better");
  EXPECT_EQ(read->state, State::Done) << "for a Spotter that does not know of it";
}

TEST_F(SummaryFolder, IsNoneWhereItCannotBeRead) {
  write("file", "");
  const auto summary = sweep::summary_of(folder_ / "file", 1, {});
  ASSERT_FALSE(summary);
  EXPECT_NE(summary.error().message.find("cannot read"), std::string::npos);
}

TEST_F(SummaryFolder, DoesNotTrustWhatItFinds) {
  account("", R"("running":7,"seconds":"long","trainers":-5,"failures":"x")");
  EXPECT_EQ(look().state, State::Stopped);
  write(".spotter/ledger.json", "no account");
  EXPECT_EQ(look().state, State::Stopped) << "something has begun there";
  write("metrics.jsonl", std::string(5 << 20, 'x'));
  EXPECT_TRUE(look().curve.points().empty());
}

}  // namespace
}  // namespace spotter::sweep
