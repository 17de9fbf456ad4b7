
#include <gtest/gtest.h>

#include "agent/wire/datagram.hpp"

namespace spotter::wire {
namespace {

TEST(GangReport, IsReadAsItWasWritten) {
  const GangReport report{.members = 4,
                          .by_name = {{"i-1", "trains"}, {"i-2", "leaves"}},
                          .machines = 3,
                          .round = 7,
                          .leader = "i-1",
                          .waits_for = "i-2, i-3",
                          .rounds = 2,
                          .why = "lost",
                          .who = "i-4",
                          .took = 5.25,
                          .trained = 900.5,
                          .between = 30,
                          .copy_step = 120,
                          .copy_machines = 3,
                          .hung = "hangs: local rank 1 in train.py:30 in load"};
  EXPECT_EQ(parse_gang_report("X_SPOTTER_STEP=3\n" + to_lines(report)), report);
  EXPECT_TRUE(parse_datagram(to_lines(report)));
}

TEST(GangReport, FitsIntoADatagram) {
  const std::string longest(1000, 'x');
  GangReport report{.members = 100,
                    .machines = UINT64_MAX,
                    .round = UINT64_MAX,
                    .leader = longest,
                    .waits_for = longest,
                    .rounds = UINT64_MAX,
                    .why = "joined",
                    .who = longest,
                    .took = 1.0 / 3,
                    .trained = 1.0 / 3,
                    .between = 1.0 / 3,
                    .copy_step = UINT64_MAX,
                    .copy_machines = UINT64_MAX,
                    .hung = longest};
  for (int i = 0; i < 100; ++i) report.by_name.push_back({longest, "awaited"});
  EXPECT_LE(to_lines(report).size(), longest_datagram);
  report.round = 3;
  const auto read = parse_gang_report(to_lines(report));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->by_name.size(), most_gang_members);
  EXPECT_EQ(read->by_name.back().does, "awaited");
}

TEST(GangReport, SaysWhatItIs) {
  GangReport report{.members = 4, .machines = 3, .round = 7, .leader = "i-1", .rounds = 2};
  report.why = "lost";
  report.who = "i-4";
  report.trained = 90;
  report.between = 10;
  EXPECT_EQ(gang_words(to_json(report)), "round 7: 3 of 4 machines train, led by i-1");
  EXPECT_EQ(gang_reason(to_json(report)), "i-4 was lost");
  EXPECT_EQ(to_json(report).value("goodput", 0.0), 0.9);
  EXPECT_EQ(gang_copy(to_json(report)), "");
  report.copy_step = 120;
  report.copy_machines = 1;
  EXPECT_EQ(gang_copy(to_json(report)), "step 120 on 1 machine");
  report.machines = 0;
  report.waits_for = "i-4";
  EXPECT_EQ(gang_words(to_json(report)), "no round of 4 machines: this one waits for i-4");
  for (const Json& none : {Json(), Json::array(), Json(7), Json::object()}) {
    EXPECT_EQ(gang_words(none), "");
    EXPECT_EQ(gang_reason(none), "");
    EXPECT_EQ(gang_copy(none), "");
  }
}

TEST(GangReport, IsWholeOrNot) {
  EXPECT_FALSE(parse_gang_report(""));
  EXPECT_FALSE(parse_gang_report("X_SPOTTER_GANG_MEMBERS=4\n"));
  EXPECT_FALSE(parse_gang_report("X_SPOTTER_GANG_MEMBERS=4\nX_SPOTTER_GANG_ROUND=-1\n"));
  EXPECT_FALSE(parse_gang_report("X_SPOTTER_GANG_MEMBERS=4\nX_SPOTTER_GANG=1\nROUND=1\n"));
}

TEST(GangReport, HasNoOtherReasonAndNoLongTexts) {
  const auto report = parse_gang_report(
      "X_SPOTTER_GANG_MEMBERS=4\nX_SPOTTER_GANG_ROUND=1\nX_SPOTTER_GANG_WHY=whim\n"
      "X_SPOTTER_GANG_SECONDS=-3\nX_SPOTTER_GANG_ROUNDS=many\nX_SPOTTER_GANG_COPY_STEP=-1\n"
      "X_SPOTTER_GANG_COPY_MACHINES=18446744073709551615\nX_SPOTTER_GANG_LEADER=" +
      std::string(1000, 'x') + "\n");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->why, "");
  EXPECT_EQ(report->took, 0);
  EXPECT_EQ(report->rounds, 0U);
  EXPECT_EQ(report->copy_step, 0U);
  EXPECT_EQ(report->copy_machines, 0U);
  EXPECT_EQ(report->leader.size(), longest_status_text);
}

}  // namespace
}  // namespace spotter::wire
