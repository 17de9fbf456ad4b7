// Rows of a trainer's own log that are reported, whatever the trainer does to the file.
#include "agent/follow/follower.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace spotter::follow {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class Log : public testing::Test {
 protected:
  Log() {
    std::string name = "/tmp/follow-XXXXXX";
    directory_ = ::mkdtemp(name.data());
    options_.name = "training.csv";
    options_.file = path("training.csv");
  }
  ~Log() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ / name; }
  static void append(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::app) << text;
  }
  void append(const std::string& text) const { append(path("training.csv"), text); }
  // Writes like pandas' to_csv(): the same file, from its beginning.
  void write_over(const std::string& text) const { std::ofstream(path("training.csv")) << text; }
  // Writes like a trainer that renames what it wrote.
  void replace(const std::string& text) const {
    std::ofstream(path("new")) << text;
    fs::rename(path("new"), path("training.csv"));
  }

  void begin(std::optional<std::uint64_t> last = {}) {
    follower_.emplace(options_, last, [this](const std::string& text) {
      if (deaf_) return false;
      if (text.starts_with("STATUS="))
        said_ = text.substr(7);
      else
        sent_.push_back(text);
      return true;
    });
    follower_->begin();
  }
  // The steps and losses that are reported now.
  std::string news(milliseconds since_start = milliseconds(0)) {
    while (follower_->look(since_start)) continue;
    return taken();
  }
  std::string at_the_end() {
    news();
    follower_->end();
    return taken();
  }
  std::string taken() {
    std::string text;
    for (const std::string& each : sent_) {
      const auto step = each.find("STEP=") + 5;
      const auto loss = each.find("LOSS=") + 5;
      text += (text.empty() ? "" : " ") + each.substr(step, each.find('\n', step) - step) + ":" +
              each.substr(loss, each.find('\n', loss) - loss);
    }
    sent_.clear();
    return text;
  }

  Options options_;
  bool deaf_ = false;
  std::string said_;

 private:
  fs::path directory_;
  std::optional<Follower> follower_;
  std::vector<std::string> sent_;
};

TEST_F(Log, IsReadWhileItGrows) {
  begin();
  EXPECT_EQ(news(), "") << "it need not be there yet";
  append("epoch,loss\r\n0,0.5\r\n1,0.");
  EXPECT_EQ(news(), "0:0.5");
  append("25\r\n2,0.125\r\n");
  EXPECT_EQ(news(), "1:0.25 2:0.125");
  EXPECT_EQ(news(), "");
}

TEST_F(Log, MayBeWrittenAsAWholeEachTime) {
  begin();
  write_over("epoch,loss\n0,0.5\n");
  EXPECT_EQ(news(), "0:0.5");
  write_over("epoch,loss\n0,0.5\n1,0.25\n");
  EXPECT_EQ(news(), "1:0.25");
  replace("epoch,loss\n0,0.5\n1,0.25\n2,0.125\n");
  EXPECT_EQ(news(), "2:0.125");
  // With another header, as Lightning does when a name appears.
  write_over("epoch,loss,lr\n0,0.5,\n1,0.25,\n2,0.125,\n3,0.0625,1\n");
  EXPECT_EQ(news(), "3:0.0625");
  write_over("epoch,loss\n1,0.75\n");
  EXPECT_EQ(news(), "1:0.75") << "it trains again, and otherwise";
}

TEST_F(Log, ThatIsWrittenOverWithAsManyBytesIsSeen) {
  begin();
  write_over("epoch,loss\n0,0.5\n");
  EXPECT_EQ(news(), "0:0.5");
  write_over("epoch,loss\n5,0.5\n");
  EXPECT_EQ(news(), "5:0.5");
}

TEST_F(Log, RepeatsWhatTheTrainerAppends) {
  append("epoch,loss\n0,0.5\n1,0.25\n");
  begin(1);
  append("1,0.25\n2,0.125\n");
  EXPECT_EQ(news(), "1:0.25 2:0.125") << "it went back to epoch 1, which the curve is to know";
}

TEST_F(Log, BringsWhatWasLostWithTheMachine) {
  append("epoch,loss\n0,0.5\n1,0.25\n2,0.125\n");
  begin(1);
  EXPECT_EQ(news(), "2:0.125");
  append("3,0.0625\n");
  EXPECT_EQ(news(), "3:0.0625");
}

TEST_F(Log, OfAnotherRunIsNotThisJobs) {
  append("epoch,loss\n0,0.5\n1,0.25\n");
  begin();
  EXPECT_EQ(news(), "");
  write_over("epoch,loss\n0,0.5\n");
  EXPECT_EQ(news(), "0:0.5") << "the same row, but this run's";
}

TEST_F(Log, IsTheTrainersWhereOnlyTheFollowerBeganAgain) {
  append("epoch,loss\n0,0.5\n1,0.25");
  options_.again = true;
  begin();
  append("\n");
  EXPECT_EQ(news(), "0:0.5 1:0.25");
}

TEST_F(Log, ThatEndsInATornRowIsNotReadOnInIt) {
  append("epoch,loss\n3,0.5\n4");
  begin(3);
  append("4,0.25\n5,0.125\n");
  EXPECT_EQ(news(), "5:0.125") << "of an epoch 44 nothing is known";
}

TEST_F(Log, IsTheOneThatWasChangedLast) {
  options_.file = path("version_*/metrics.csv");
  fs::create_directory(path("version_0"));
  append(path("version_0/metrics.csv"), "step,loss\n1,0.5\n");
  begin(1);
  EXPECT_EQ(news(), "");
  fs::create_directory(path("version_1"));
  append(path("version_1/metrics.csv"), "step,loss\n2,0.25\n");
  fs::last_write_time(path("version_0/metrics.csv"),
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(news(), "2:0.25");
}

TEST_F(Log, WaitsForAnAgentThatIsAway) {
  begin();
  deaf_ = true;
  append("epoch,loss\n0,0.5\n");
  EXPECT_EQ(news(), "");
  append("1,0.25\n");
  EXPECT_EQ(news(), "");
  deaf_ = false;
  EXPECT_EQ(news(), "0:0.5 1:0.25");
}

TEST_F(Log, OfManyRowsAtOnceIsThinned) {
  begin();
  std::string text = "step,loss\n";
  for (int step = 0; step < 20'000; ++step) text += std::to_string(step) + ",0.5\n";
  append(text);
  const std::string all = news();
  EXPECT_LE(std::count(all.begin(), all.end(), ':'), 512);
  EXPECT_TRUE(all.ends_with("19999:0.5"));
}

TEST_F(Log, HasALastRowWithoutANewlineOnlyInJson) {
  options_.kind = wire::LogKind::JsonLines;
  begin();
  append("{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2, \"loss\": 0.25}");
  EXPECT_EQ(news(), "1:0.5");
  EXPECT_EQ(at_the_end(), "2:0.25");
  options_.kind = wire::LogKind::Csv;
  write_over("step,loss\n");
  begin();
  append("3,0.2");
  EXPECT_EQ(at_the_end(), "") << "the number may be 0.25";
}

TEST_F(Log, HasNoLastRowOfAnEarlierRunsTrainer) {
  options_.kind = wire::LogKind::JsonLines;
  append("{\"step\": 1, \"loss\": 0.5}");
  begin(9);
  EXPECT_EQ(at_the_end(), "") << "the curve would lose its points behind it";
}

TEST_F(Log, ThatIsNoFileIsNotOpened) {
  ASSERT_EQ(::mkfifo(options_.file.c_str(), 0600), 0);
  begin();
  EXPECT_EQ(news(), "") << "and nobody waits for its writer";
}

TEST_F(Log, ThatDoesNotComeIsReported) {
  begin();
  EXPECT_EQ(news(milliseconds(59'000)), "");
  EXPECT_EQ(said_, "");
  news(std::chrono::minutes(2));
  const std::string missing = "training.csv: no file that can be read (metrics of job.yaml)\n";
  EXPECT_EQ(said_, missing);
  append("batch,loss\n1,0.5\n");
  news(std::chrono::minutes(3));
  EXPECT_NE(said_.find("training.csv: no column of it is the step"), std::string::npos);
  write_over("epoch,loss\n");
  news(std::chrono::minutes(3));
  EXPECT_EQ(said_, "\n");
  fs::remove(options_.file);
  at_the_end();
  EXPECT_EQ(said_, missing) << "also after a trainer that was quick";
}

TEST_F(Log, MayHaveLinesOfAnyLength) {
  begin();
  append("epoch,loss\n0," + std::string(3U << 20, '1') + "\n1,0.5\n");
  EXPECT_EQ(news(), "1:0.5");
}

}  // namespace
}  // namespace spotter::follow
