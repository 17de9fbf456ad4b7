#include "agent/wire/status.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

TEST(ProgressBar, IsAsLongAsItIsAskedToBe) {
  EXPECT_EQ(progress_bar(0, 12), "[..........]");
  EXPECT_EQ(progress_bar(0.5, 12), "[#####.....]");
  EXPECT_EQ(progress_bar(0.99, 12), "[#########.]") << "not full before the end";
  EXPECT_EQ(progress_bar(7, 5), "[###]");
  EXPECT_EQ(progress_bar(-1, 5), "[...]");
  EXPECT_EQ(progress_bar(0.5, 2), "");
}

TEST(DurationText, InTwoUnitsAtMost) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(99), "99 s");
  EXPECT_EQ(duration_text(720), "12 min");
  EXPECT_EQ(duration_text(11100), "3 h 5 min");
  EXPECT_EQ(duration_text(36000), "10 h");
  EXPECT_EQ(duration_text(2 * 86400 + 4 * 3600 + 59), "2 d 4 h");
}

TEST(StatusText, CutsNoCharacterApart) {
  const std::string json = R"({"version":1,"job":"한국어한국어한국어"})";
  const auto text = status_text(json, Time(), 24);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "job         한국어한\n");
}

TEST(StatusText, HasAllOfTheDeadline) {
  const std::string json =
      R"({"version":1,"outlook":"by 2026-12-04T18:00:00Z; 34 % left; on demand from 21:10"})";
  EXPECT_EQ(*status_text(json, Time(), 80),
            "deadline    by 2026-12-04T18:00:00Z; 34 % left; on demand from 21:10\n");
  EXPECT_EQ(*status_text(json, Time(), 50),
            "deadline    by 2026-12-04T18:00:00Z; 34 % left;\n"
            "            on demand from 21:10\n");
}

TEST(StatusText, OfOurVersionOnly) {
  EXPECT_FALSE(status_text(R"({"version":2,"job":"a"})", Time()));
  EXPECT_FALSE(status_text(R"({"job":"a"})", Time()));
  EXPECT_FALSE(status_text("", Time()));
  EXPECT_EQ(status_text(R"({"version":1,"step":[],"loss":{},"problems":7})", Time()), "");
}

}  // namespace
}  // namespace spotter::wire
