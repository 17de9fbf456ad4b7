#include "agent/wire/history.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace spotter::wire {
namespace {

TEST(History, ReadsWhatItWrites) {
  const HistoryEntry began{
      1700000000.25, "began", "i-1", {{"zone", "us-west-2a"}, {"booted", 1.5}}};
  const HistoryEntry resumed{1700000001, "resumed", "i-1", {{"step", 30}, {"repeated", nullptr}}};
  const std::string lines = to_line(began) + to_line(resumed);
  EXPECT_EQ(lines,
            "{\"time\":1700000000.25,\"what\":\"began\",\"instance\":\"i-1\",\"booted\":1.5,"
            "\"zone\":\"us-west-2a\"}\n"
            "{\"time\":1700000001.0,\"what\":\"resumed\",\"instance\":\"i-1\",\"step\":30}\n");
  const auto read = parse_history(lines);
  ASSERT_EQ(read.entries.size(), 2U);
  EXPECT_EQ(read.foreign, 0U);
  EXPECT_EQ(read.entries[0], began);
  EXPECT_EQ(read.entries[1].number("step"), 30);
  EXPECT_FALSE(read.entries[1].number("repeated"));
  EXPECT_EQ(read.entries[0].text("zone"), "us-west-2a");
  EXPECT_EQ(read.entries[0].text("booted"), "") << "a number is no text";
  EXPECT_FALSE(read.entries[0].number("zone"));
}

TEST(History, LeavesOutWhatIsNoMoment) {
  const auto read = parse_history(
      "{\"time\":1,\"what\":\"left\"}\n\nhello\n[]\n{\"what\":\"left\"}\n{\"time\":2}\n"
      "{\"time\":\"3\",\"what\":\"left\"}\n{\"time\":-1,\"what\":\"left\"}\n"
      "{\"time\":1e300,\"what\":\"left\"}\n{\"time\":4,\"what\":\"of a newer Spotter\"}\n"
      "{\"time\":5,\"what\":\"phase\",\"phase\":7,\"newer\":[{}]}\n"
      "{\"time\":6,\"what\":\"phase\",\"pha");
  ASSERT_EQ(read.entries.size(), 2U);
  EXPECT_EQ(read.entries[0].what, "left");
  EXPECT_EQ(read.entries[0].instance, "");
  EXPECT_EQ(read.entries[1].text("phase"), "");
  EXPECT_EQ(read.foreign, 9U);
}

TEST(History, TheNextLineIsReadAfterAHalfOne) {
  const auto read = parse_history(
      "{\"time\":1,\"what\":\"notice\",\"action\":\"ter{\"time\":2,\"what\":\"left\"}\n"
      "{\"time\":3,\"what\":\"left\"}\n");
  ASSERT_EQ(read.entries.size(), 1U);
  EXPECT_EQ(read.entries[0].time, 3);
  EXPECT_EQ(read.foreign, 1U);
}

TEST(History, OfANewerSpotterIsSaidAndNotMisread) {
  const auto read = parse_history(
      "{\"time\":1,\"what\":\"left\"}\n"
      "{\"version\":2,\"time\":\"1970-01-01\",\"what\":\"left\"}\n"
      "{\"version\":1,\"time\":3,\"what\":\"left\"}\n");
  EXPECT_EQ(read.entries.size(), 2U);
  EXPECT_EQ(read.foreign, 1U);
  EXPECT_NE(read.newer.find("the history was written by a newer Spotter (format 2"),
            std::string::npos)
      << read.newer;
  EXPECT_EQ(parse_history("{\"time\":1,\"what\":\"left\"}\n{\"ti").newer, "");
}

TEST(History, WritesWhatIsNoUtf8AsOneLine) {
  const std::string line = to_line({1, "problem", "i-1", {{"words", "bad \xff\nbyte"}}});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(parse_history(line).entries.size(), 1U);
}

}  // namespace
}  // namespace spotter::wire
