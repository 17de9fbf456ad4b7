#include "agent/service/observe/history_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace spotter {
namespace {

namespace fs = std::filesystem;

class Kept : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  static wire::HistoryEntry began(double booted, const char* job = "mnist") {
    return {1700000000.5, "began", "i-1", {{"booted", booted}, {"job", job}}};
  }
  static wire::HistoryEntry entry(double time) { return {time, "rebalance", "i-1"}; }
  std::string all() const {
    std::ifstream file(folder_ + "/history.jsonl");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_ = testing::TempDir() + "/spotter-kept-" + std::to_string(::getpid());
};

TEST_F(Kept, WhatIsNotOnTheStorageYet) {
  HistoryFile file(folder_);
  EXPECT_EQ(file.news(), "");
  EXPECT_EQ(file.segment(), "");
  EXPECT_TRUE(file.open(began(1000)).empty());
  EXPECT_EQ(file.segment(), "1700000000500-i-1");
  file.append(entry(1));
  EXPECT_EQ(wire::parse_history(file.news()).entries.size(), 2U);
  file.kept(file.news().size());
  EXPECT_EQ(file.news(), "");
  file.append(entry(2));
  EXPECT_EQ(wire::parse_history(file.news()).entries.size(), 1U);
}

TEST_F(Kept, AnotherAgentOfTheSameBootGoesOn) {
  {
    HistoryFile file(folder_);
    file.open(began(1000));
    file.kept(file.news().size());
    file.append(entry(1));
  }
  HistoryFile file(folder_);
  auto later = began(1001);
  later.time += 60;
  const auto earlier = file.open(later);
  ASSERT_EQ(earlier.size(), 2U);
  EXPECT_EQ(earlier[1].what, "rebalance");
  EXPECT_EQ(file.segment(), "1700000000500-i-1");
  EXPECT_EQ(file.news(), to_line(entry(1)));
}

TEST_F(Kept, AnotherBootOrJobStartsOver) {
  for (const auto& other : {began(5000), began(1000, "cifar")}) {
    HistoryFile(folder_).open(began(1000));
    std::ofstream(folder_ + "/curve.jsonl") << "an old one";
    HistoryFile file(folder_);
    EXPECT_TRUE(file.open(other).empty());
    EXPECT_EQ(all(), to_line(other));
    EXPECT_FALSE(fs::exists(folder_ + "/curve.jsonl"));
  }
}

TEST_F(Kept, AForeignOrHalfWrittenFileDoesNotMatter) {
  std::ofstream(folder_ + "/history.jsonl") << "{\"time\":17";
  std::ofstream(folder_ + "/history.kept") << "many";
  HistoryFile file(folder_);
  EXPECT_TRUE(file.open(began(1000)).empty());
  EXPECT_EQ(all(), to_line(began(1000)));
  EXPECT_EQ(file.news(), all());
}

TEST_F(Kept, ItStaysSmallHoweverLongTheMachineLives) {
  HistoryFile file(folder_);
  file.open(began(1000));
  for (int i = 0; i < 40'000; ++i) {
    file.append(entry(i));
    if (i % 100 == 0) file.kept(file.news().size());
  }
  EXPECT_LE(file.size(), 1U << 20);
  EXPECT_EQ(fs::file_size(folder_ + "/history.jsonl"), file.size());
  const auto read = wire::parse_history(all());
  EXPECT_EQ(read.foreign, 0U);
  EXPECT_EQ(read.entries.front(), began(1000)) << "whose they are";
  EXPECT_EQ(read.entries.back(), entry(39'999));
  const auto news = wire::parse_history(file.news()).entries;
  EXPECT_EQ(news.size(), 99U);
  EXPECT_EQ(news.back(), entry(39'999));
}

TEST_F(Kept, OthersDoNotReadIt) {
  HistoryFile file(folder_);
  file.open(began(1000));
  file.kept(file.news().size());
  for (int line = 0; line < 30'000; ++line) file.append(entry(line));  // the oldest go
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    ++files;
    EXPECT_EQ(entry.status().permissions(), fs::perms(0600)) << entry.path();
  }
  EXPECT_EQ(files, 2);
}

}  // namespace
}  // namespace spotter
