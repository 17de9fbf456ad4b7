#include "tests/capacity/trace.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace spotter::capacity {
namespace {

std::string ticks(const MarketPool& pool) {
  std::string text;
  for (const bool it : pool.available) text += it ? '#' : '.';
  return text;
}

// In ticks of an hour, at 0.5 dollars where there is no price.
std::string ticks_of(std::string_view text, Reading reading = {}) {
  reading.tick = 1;
  reading.usual = 0.5;
  const auto pool = parse_pool(text, reading);
  return pool ? ticks(*pool) : pool.error().message;
}

TEST(Trace, HoldsUntilTheNextLineAndCapacityThatGoesWithinATickIsNotThere) {
  const auto pool =
      parse_pool("seconds,available,dollars\n0,1,0.9\n3600,0,0.8\n9000,1\n18000,1\n", {1, 0.5});
  ASSERT_TRUE(pool) << pool.error().message;
  EXPECT_EQ(ticks(*pool), "#..##");
  EXPECT_EQ(pool->dollars, (std::vector<double>{0.9, 0.8, 0.8, 0.5, 0.5}));
}

TEST(Trace, KnowsItsTimesHoweverTheyAreWritten) {
  const char* expected = "#..#";
  EXPECT_EQ(ticks_of("0,1\n3600,0\n10800,1\n14400,1\n"), expected) << "seconds";
  EXPECT_EQ(ticks_of("0,1\n1,0\n3,1\n4,1\n"), expected) << "hours";
  EXPECT_EQ(ticks_of("0.0,1\n1.0,0\n1.5,0\n2.0,0\n2.5,0\n3,1\n4,1\n"), expected) << "half hours";
  EXPECT_EQ(ticks_of("time_hours,available\n0,1\n1,0\n3,1\n4,1\n"), expected);
  EXPECT_EQ(ticks_of("minutes,available\n0,1\n60,0\n180,1\n240,1\n"), expected);
  EXPECT_EQ(ticks_of("time_ms,available\n0,1\n3600000,0\n10800000,1\n14400000,1\n"), expected);
  EXPECT_EQ(ticks_of("1700000000,1\n1700003600,0\n1700010800,1\n1700014400,1\n"), expected);
  EXPECT_EQ(ticks_of("1700000000000,1\n1700003600000,0\n1700010800000,1\n1700014400000,1\n"),
            expected);
  EXPECT_EQ(ticks_of("timestamp,available\n2026-01-01T00:00:00Z,1\n2026-01-01T01:00Z,0\n"
                     "2026-01-01 03:00:00,1\n2026-01-01T05:00+01:00,1\n"),
            expected);
}

TEST(Trace, KnowsItsColumnsHoweverTheyAreOrdered) {
  EXPECT_EQ(ticks_of("price;availability;Timestamp\n0.3;True;0\n0.4;False;3600\n0.3;True;7200\n"),
            "#.");
  EXPECT_EQ(ticks_of("0 1 0.3\n3600 0 0.3\n7200 1 0.3\n"), "#.");
  EXPECT_EQ(ticks_of("\"0\",\"up\"\r\n\r\n# a remark\r\n\"3600\",\"down\"\r\n\"7200\",\"up\"\r\n"),
            "#.");
  EXPECT_EQ(ticks_of("7200,1\n0,0\n0,1\n3600,0\n"), "#.") << "sorted; of two the later line";
  EXPECT_EQ(ticks_of("x,y\n0,1\n3600,0\n7200,1\n"), "#.") << "names that say nothing";
  EXPECT_EQ(ticks_of("0,0\n3600,1\n7200,1\n", {.one_is_lost = true}), "#.");
}

TEST(Trace, OfSkyPilotsForm) {
  const auto pool =
      parse_pool(R"({"metadata":{"gap_seconds":1800},"data":[1,2,0,true],"prices":[0.2,0.3]})",
                 {.tick = 0.5, .usual = 0.5});
  ASSERT_TRUE(pool) << pool.error().message;
  EXPECT_EQ(ticks(*pool), "##.#");
  EXPECT_EQ(pool->dollars, (std::vector<double>{0.2, 0.3, 0.5, 0.5}));
}

TEST(Trace, OfFleetsWhoseInstancesComeAndGo) {
  const char* text =
      "0,add,node1\n3600000,add,node2\n7200000,remove,node1\n10800000,remove,node2\n"
      "14400000,add,node3\n";
  EXPECT_EQ(ticks_of(text), "###.");
  EXPECT_EQ(ticks_of(text, {.at_least = 2}), ".#..");
}

TEST(Trace, WhatIsNoneIsRefusedWithItsLine) {
  const std::string line2 = "line 2 is not a time, available or not, and a price";
  EXPECT_EQ(ticks_of("0,1,0.9\n3600,maybe\n"), line2);
  EXPECT_EQ(ticks_of("0,1,0.9\n3600,1,-1\n"), line2);
  EXPECT_EQ(ticks_of("0,1\nlater,1\n"), line2);
  EXPECT_EQ(ticks_of("0,1\n"), "it has fewer than two points");
  EXPECT_EQ(ticks_of(""), "it has fewer than two points");
  EXPECT_EQ(ticks_of("{\"data\":"), "it is not valid JSON");
  EXPECT_EQ(ticks_of("{\"data\":[1]}"), "there is no gap_seconds, or no data");
  EXPECT_EQ(ticks_of("{\"metadata\":3,\"data\":[1]}"), "there is no gap_seconds, or no data");
}

TEST(Trace, PoolsWithDatesLieSideBySide) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("spotter-traces-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "a.csv") << "2026-01-01T00:00Z,1\n2026-01-01T02:00Z,0\n"
                                     "2026-01-01T06:00Z,0\n";
  std::ofstream(folder / "b.csv") << "2026-01-01T01:00Z,0\n2026-01-01T03:00Z,1\n"
                                     "2026-01-01T05:00Z,1\n";
  const auto market = load_market({folder}, {.tick = 1}, 1);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(market) << market.error().message;
  EXPECT_EQ(ticks(market->pools[0]), "#...");
  EXPECT_EQ(ticks(market->pools[1]), "..##");
}

}  // namespace
}  // namespace spotter::capacity
