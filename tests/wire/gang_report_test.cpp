
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
  EXPECT_EQ(parse_gang_report("X_SPOTTER_STEP=3\n" + to_line(report)), report);
  EXPECT_TRUE(parse_datagram(to_line(report)));
}

TEST(GangReport, FitsIntoADatagram) {
  const std::string longest(1000, 'x');
  GangReport report{.members = 100,
                    .machines = INT64_MAX,
                    .round = INT64_MAX,
                    .leader = longest,
                    .waits_for = longest,
                    .rounds = INT64_MAX,
                    .why = "joined",
                    .who = longest,
                    .took = 1.0 / 3,
                    .trained = 1.0 / 3,
                    .between = 1.0 / 3,
                    .copy_step = INT64_MAX,
                    .copy_machines = INT64_MAX,
                    .hung = longest};
  for (int i = 0; i < 100; ++i) report.by_name.push_back({longest, "awaited"});
  EXPECT_LE(to_line(report).size(), longest_datagram);
  auto read = parse_gang_report(to_line(report));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->by_name.size(), most_gang_members);
  EXPECT_EQ(read->by_name.back().does, "awaited");
  EXPECT_EQ(read->leader.size(), longest_status_text);
  EXPECT_EQ(read->hung.size(), longest_status_text);
  report.hung = std::string(1000, '"');  // each of them two bytes of JSON
  report.waits_for = report.who = report.hung;
  EXPECT_LE(to_line(report).size(), longest_datagram);
  read = parse_gang_report(to_line(report));
  ASSERT_TRUE(read) << "the last members are left out";
  EXPECT_LT(read->by_name.size(), most_gang_members);
  EXPECT_GT(read->by_name.size(), 0U);
  EXPECT_EQ(read->members, 100U);
}

// People's programs read it by these names.
TEST(GangReport, IsThisObjectInTheStatus) {
  EXPECT_EQ(to_json({.by_name = {{"i-1", "trains"}},
                     .rounds = 1,
                     .trained = 3,
                     .between = 1,
                     .copy_machines = 1,
                     .hung = "hangs"})
                .dump(),
            R"({"between_seconds":1.0,"by_name":[{"does":"trains","name":"i-1"}],)"
            R"("copy_machines":1,"copy_step":0,"goodput":0.75,"hung":"hangs","leader":"",)"
            R"("machines":0,"members":0,"round":0,"rounds":1,"took_seconds":0.0,)"
            R"("trained_seconds":3.0,"waits_for":"","who":"","why":""})");
  EXPECT_EQ(to_json({.why = "lost", .who = "i-1", .took = 2, .copy_step = 9}).dump(),
            R"({"between_seconds":0.0,"by_name":[],"goodput":null,"leader":"","machines":0,)"
            R"("members":0,"round":0,"rounds":0,"trained_seconds":0.0,"waits_for":""})");
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
  const auto report = [](const std::string& json) {
    return parse_gang_report("READY=1\nX_SPOTTER_GANG=" + json + "\n");
  };
  EXPECT_TRUE(report(R"({"members":4,"round":0})"));
  EXPECT_FALSE(parse_gang_report(""));
  EXPECT_FALSE(parse_gang_report(R"(X_GANG={"members":4,"round":0})"));
  for (const char* const bad :
       {"", "4", "[]", "{", R"({"members":4})", R"({"round":1})", R"({"members":4,"round":-1})",
        R"({"members":4,"round":1.5})", R"({"members":4,"round":1,"rounds":"many"})",
        R"({"members":4,"round":1,"leader":7})", R"({"members":4,"round":1,"took_seconds":1e999})",
        R"({"members":4,"round":1,"by_name":[{"does":"trains"}]})"})
    EXPECT_FALSE(report(bad)) << bad;
}

TEST(GangReport, HasNoOtherReasonAndNoLongTexts) {
  const std::string longest(1000, 'x');
  const auto report = parse_gang_report(
      R"(X_SPOTTER_GANG={"members":4,"round":1,"why":"whim","took_seconds":-3,)"
      R"("trained_seconds":1e300,"copy_machines":18446744073709551615,"who":"i-1\nREADY=1",)"
      R"("by_name":[{"name":")" +
      longest + R"(","does":"sleeps"}],"leader":")" + longest + "\"}\n");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->why, "");
  EXPECT_EQ(report->who, "i-1") << "a line";
  EXPECT_EQ(report->took, 0);
  EXPECT_EQ(report->trained, 1e9);
  EXPECT_EQ(report->copy_machines, static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_EQ(report->leader.size(), longest_status_text);
  ASSERT_EQ(report->by_name.size(), 1U);
  EXPECT_EQ(report->by_name[0].name.size(), longest_gang_name);
  EXPECT_EQ(report->by_name[0].does, "");
}

}  // namespace
}  // namespace spotter::wire
