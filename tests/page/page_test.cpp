// The page that a browser is given, and the changes that it gets.
#include "agent/report/page/page.hpp"

#include <gtest/gtest.h>

#include "agent/report/page/feed.hpp"

namespace spotter::page {
namespace {

using nlohmann::json;

// "event" and "data" of each.
std::vector<std::pair<std::string, json>> events_of(const std::string& text) {
  std::vector<std::pair<std::string, json>> found;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find("\n\n", at);
    const std::string one = text.substr(at, end - at);
    const auto data = one.find("\ndata: ");
    found.emplace_back(one.substr(7, data - 7), json::parse(one.substr(data + 7)));
    at = end + 2;
  }
  return found;
}

json model_of(int points) {
  json model = {{"version", 1}, {"now", 5}, {"state", "training"}, {"curve", json::object()}};
  for (const char* name : {"step", "loss", "accuracy", "time"}) {
    model["curve"][name] = json::array();
    for (int i = 0; i < points; ++i) model["curve"][name].push_back(i);
  }
  return model;
}

TEST(Page, HasItsModelAsTextThatEndsNothing) {
  const std::string page = document(R"({"job":"</script><script>alert(1)</script><!--"})");
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_NE(page.find(R"("\u003c/script>\u003cscript>alert(1)\u003c/script>\u003c!--")"),
            std::string::npos);
}

TEST(Page, AsksNobodyForAnything) {
  for (const std::string& page : {html(), document("{}")}) {
    EXPECT_EQ(page.find("@"), page.find("@keyframes"));  // no mark is left
    EXPECT_NE(page.find("default-src 'none'; script-src 'sha256-"), std::string::npos);
    EXPECT_EQ(page.find("unsafe"), std::string::npos);
    EXPECT_EQ(page.find("https://"), std::string::npos);
  }
  EXPECT_NE(html().find("connect-src 'self'"), std::string::npos);
  EXPECT_NE(document("{}").find("connect-src 'none'"), std::string::npos);
}

TEST(Feed, SaysEverythingOnceThenWhatChanged) {
  Feed feed;
  const auto first = events_of(feed.next(model_of(3)));
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].first, "model");
  EXPECT_EQ(first[0].second, json({{"version", 1}, {"now", 5}, {"state", "training"}}));
  EXPECT_EQ(first[1].first, "points");
  EXPECT_EQ(first[1].second["from"], 0);
  EXPECT_EQ(first[1].second["loss"], json({0, 1, 2}));
  EXPECT_EQ(feed.next(model_of(3)), "");
  json later = model_of(3);
  later["now"] = 6;
  EXPECT_EQ(feed.next(later), "");
  later["state"] = "waiting";
  const auto second = events_of(feed.next(later));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].second, json({{"now", 6}, {"state", "waiting"}}));
}

TEST(Feed, TheClockIsOfTheMomentAtWhichItIsSent) {
  Feed feed;
  const auto said = events_of(feed.next(model_of(1), {{"now", 9}, {"world", "turns"}}));
  EXPECT_EQ(said[0].second["now"], 9);
  EXPECT_EQ(said[0].second["world"], "turns");
  EXPECT_EQ(feed.next(model_of(1), {{"now", 10}, {"world", "turns"}}), "");
}

TEST(Feed, SendsOfACurveOnlyWhatIsNew) {
  Feed feed;
  feed.next(model_of(50000));
  const auto grown = events_of(feed.next(model_of(50002)));
  ASSERT_EQ(grown.size(), 1U);
  EXPECT_EQ(grown[0].second["from"], 50000);
  EXPECT_EQ(grown[0].second["step"], json({50000, 50001}));
}

TEST(Feed, TellsOfAMetricFromItsFirstEvaluationOn) {
  Feed feed;
  feed.next(model_of(2));
  json model = model_of(3);
  model["curve"]["val_loss"] = {nullptr, nullptr, 0.5};
  const auto first = events_of(feed.next(model));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].second["from"], 0) << "the page has no such column";
  EXPECT_EQ(first[0].second["val_loss"], json({nullptr, nullptr, 0.5}));
  model = model_of(4);
  model["curve"]["val_loss"] = {nullptr, nullptr, 0.5, nullptr};
  const auto second = events_of(feed.next(model));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].second["from"], 3);
  EXPECT_EQ(second[0].second["val_loss"], json::array({nullptr}));
}

TEST(Feed, TakesBackWhatDidNotHappen) {
  Feed feed;
  feed.next(model_of(10));
  const auto cut = events_of(feed.next(model_of(7)));
  ASSERT_EQ(cut.size(), 1U);
  EXPECT_EQ(cut[0].second["from"], 7);
  EXPECT_EQ(cut[0].second["step"], json::array());
  json other = model_of(7);
  other["curve"]["loss"][5] = 0.5;
  const auto changed = events_of(feed.next(other));
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].second["from"], 5);
  EXPECT_EQ(changed[0].second["loss"], json({0.5, 6}));
}

TEST(Feed, KnowsTheCurvesOfASweepApart) {
  Feed feed;
  json model = model_of(2);
  model["sweep"] = {{"experiments", {{{"index", 4}, {"curve", model["curve"]}}, {{"index", 5}}}}};
  const auto first = events_of(feed.next(model));
  ASSERT_EQ(first.size(), 3U);
  EXPECT_FALSE(first[0].second["sweep"]["experiments"][0].contains("curve"));
  EXPECT_EQ(first[2].second["experiment"], 0);
  model["sweep"]["experiments"][1]["curve"] = model["curve"];
  const auto second = events_of(feed.next(model));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].second["experiment"], 1);
}

TEST(Feed, SurvivesTextThatIsNoUtf8AndModelsThatAreNone) {
  Feed feed;
  EXPECT_EQ(feed.next(json::array()), "");
  const auto said = events_of(feed.next({{"says", "\xff\n\n"}, {"curve", 7}}));
  ASSERT_EQ(said.size(), 1U);  // the blank lines end no event
  EXPECT_EQ(said[0].second["says"], "\xEF\xBF\xBD\n\n");
}

TEST(Origin, NamesThatSomebodyElseAnswersForAreRefused) {
  for (const char* name : {"127.0.0.1", "127.0.0.1:4566", "localhost:80", "[::1]:80", "10.0.0.1",
                           "emulator:4566", "x.localhost:1"})
    EXPECT_TRUE(is_local_name(name)) << name;
  for (const char* name : {"", "evil.example", "evil.example:4566", "127.0.0.1.evil.example"})
    EXPECT_FALSE(is_local_name(name)) << name;
}

TEST(Origin, OnlyItsOwnNamesLeadToThisMachine) {
  for (const char* name : {"127.0.0.1", "127.0.0.1:4566", "localhost:80", "[::1]:80", "localhost"})
    EXPECT_TRUE(is_loopback_name(name)) << name;
  for (const char* name : {"", "10.0.0.1", "printer:80", "x.localhost", "127.0.0.1.evil.example"})
    EXPECT_FALSE(is_loopback_name(name)) << name;
}

TEST(Origin, OfAnotherPageIsRefused) {
  EXPECT_TRUE(is_same_origin("127.0.0.1:80", ""));
  EXPECT_TRUE(is_same_origin("127.0.0.1:80", "http://127.0.0.1:80"));
  EXPECT_FALSE(is_same_origin("127.0.0.1:80", "http://127.0.0.1:81"));
  EXPECT_FALSE(is_same_origin("127.0.0.1:80", "null"));
  EXPECT_FALSE(is_same_origin("127.0.0.1:80", "http://evil.example"));
}

}  // namespace
}  // namespace spotter::page
