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

TEST(StatusText, HasAllOfASentence) {
  const std::string json = R"({"version":1,"stage":"waiting","says":"waiting for capacity since )"
                           R"(12 min; none in us-west-2a"})";
  EXPECT_EQ(*status_text(json, Time(), 40),
            "stage       waiting for capacity since\n"
            "            12 min; none in us-west-2a\n");
}

TEST(StatusText, SaysAStageInWordsOfAPerson) {
  const auto shown = [](const std::string& fields) {
    return *status_text("{\"version\":1,\"stage\":" + fields + "}", Time());
  };
  EXPECT_EQ(shown(R"("closing-ledger")"), "stage       writing its record\n");
  EXPECT_EQ(shown(R"("closing-ledger","says":"waiting for a GPU")"),
            "stage       waiting for a GPU\n");
  EXPECT_EQ(shown(R"("of-a-later-version")"), "stage       of-a-later-version\n");
}

TEST(StatusText, SaysNoSentenceTwice) {
  const std::string json =
      R"({"version":1,"stage":"blocked","says":"blocked: no volume. Looking again in 30 s",)"
      R"("blocked":"no volume","problems":[{"words":"blocked: no volume"},{"words":"other"}]})";
  EXPECT_EQ(*status_text(json, Time(), 80),
            "stage       blocked: no volume. Looking again in 30 s\n"
            "lately      other\n");
}

TEST(StatusText, SaysInOneLineWhatAJobHasSpent) {
  EXPECT_EQ(spent_words(R"({"spent_seconds":7200,"spent_dollars":1.5,"interruptions":1})"),
            "2 h of instances, $1.50, 1 interruption");
  EXPECT_EQ(spent_words("{}"), "");
  EXPECT_EQ(spent_words("half a docum"), "");
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

TEST(StatusText, HasTheGang) {
  const auto gang = [](const std::string& of_gang) {
    return *status_text(R"({"version":1,"gang":)" + of_gang + "}", Time(Duration(10'000)));
  };
  EXPECT_EQ(gang(R"({"members":4,"machines":3,"round":7,"leader":"i-1","waits_for":"","rounds":2,)"
                 R"("by_name":[{"name":"i-1","does":"trains"},{"name":"i-4","does":"awaited"}],)"
                 R"("why":"lost","who":"i-4","took_seconds":5.25,"round_boottime_ms":8000,)"
                 R"("hung":"hangs: local rank 1 in a.py:3 in f","goodput":0.968,)"
                 R"("copy_step":120,"copy_machines":3,)"
                 R"("trained_seconds":6000,"between_seconds":90})"),
            "gang        round 7: 3 of 4 machines train, led by i-1\n"
            "members     i-1 trains; i-4 awaited\n"
            "last round  in 5.2 s, 2 s ago: i-4 was lost\n"
            "in memory   step 120 on 3 machines\n"
            "hung        hangs: local rank 1 in a.py:3 in f\n"
            "goodput     96 %: 1 h 40 min in rounds, 90 s between\n");
  EXPECT_EQ(gang(R"({"members":1,"machines":0,"round":0,"waits_for":"2 machines at least"})"),
            "gang        no round of 1 machine: this one waits for 2 machines at least\n"
            "waits for   2 machines at least\n");
  EXPECT_EQ(gang(R"({"members":2,"machines":2,"round":3,"leader":"a\u001b","why":"failed"})"),
            "gang        round 3: 2 of 2 machines train, led by a \n");
  for (const char* none : {"{}", "[]", "7", "null", R"({"by_name":[1,{}]})",
                           R"({"copy_step":-1,"copy_machines":3})", R"({"copy_machines":"3"})"})
    EXPECT_EQ(gang(none), "") << none;
}

TEST(StatusText, SaysHowFarTheBucketIsAndHowFastTheWayThere) {
  const std::string begin = R"({"version":1,"bucket_step":)";
  EXPECT_EQ(*status_text(begin + R"(40,"upload_bytes":96000000,"upload_seconds":3.2})", Time()),
            "bucket      has step 40, the last upload: 96.0 MB in 3.2 s, 30.0 MB/s\n");
  EXPECT_EQ(*status_text(begin + "null}", Time()), "");
  EXPECT_EQ(*status_text(begin + R"(7,"upload_bytes":5,"upload_seconds":0})", Time()),
            "bucket      has step 7\n");
}

TEST(StatusText, HasWhatTheWatcherWroteDown) {
  EXPECT_EQ(*status_text(R"({"version":1,"watcher":"watched at noon: spot runs"})", Time(), 80),
            "watcher     watched at noon: spot runs\n");
}

TEST(StatusText, OfOurVersionOnly) {
  EXPECT_FALSE(status_text(R"({"version":2,"job":"a"})", Time()));
  EXPECT_FALSE(status_text(R"({"job":"a"})", Time()));
  EXPECT_FALSE(status_text("", Time()));
  EXPECT_EQ(status_text(R"({"version":1,"step":[],"loss":{},"problems":7})", Time()), "");
}

}  // namespace
}  // namespace spotter::wire
