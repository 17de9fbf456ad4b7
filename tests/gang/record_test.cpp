#include "agent/gang/record.hpp"

#include <gtest/gtest.h>

#include "agent/base/version.hpp"

namespace spotter::gang {
namespace {

Record full() {
  Record record{.job = "home-1",
                .phase = Record::Phase::Training,
                .round = 7,
                .ranks = {"b", "a"},
                .failures = 1,
                .apart = 4,
                .progress = 1200};
  record.members.push_back(
      {.id = "a", .name = "host-a", .beats = 3, .leaves_in = Duration(90'000)});
  record.members.push_back({.id = "b",
                            .name = "host-b",
                            .beats = 9,
                            .ready = true,
                            .address = "10.0.0.2",
                            .port = 4000,
                            .apart = true,
                            .trained = true,
                            .left_out = true});
  record.writer = "b:12";
  return record;
}

TEST(GangRecord, IsReadAsItWasWritten) {
  const auto read = parse_record(to_json(full()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, full());
}

TEST(GangRecord, IsReadWhateverNumbersItWasGiven) {
  Record record = full();
  record.progress = INT64_MAX;
  record.round = record.members[0].beats = UINT64_MAX;
  record.members[0].leaves_in = std::chrono::days(30);
  record.members[1].leaves_in = Duration(-1);
  const auto read = parse_record(to_json(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->progress, most_steps);
  EXPECT_EQ(read->members[0].leaves_in, longest_leave);
  EXPECT_EQ(read->members[1].leaves_in, Duration(0));
}

TEST(GangRecord, OfALaterVersionIsLeftAlone) {
  std::string text = to_json(full());
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  const auto read = parse_record(text);
  ASSERT_FALSE(read);
  EXPECT_TRUE(wire::is_newer(read.error()));
}

TEST(GangRecord, ThatIsNoneIsRefused) {
  const std::string good = to_json(full());
  for (const auto& [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\"training\"", "\"running\""},
           {"\"round\":7", "\"round\":-7"},
           {"\"failures\":1", "\"failures\":\"1\""},
           {"\"progress\":1200", "\"progress\":null"},
           {"\"ranks\":[\"b\",\"a\"]", "\"ranks\":[1]"},
           {"\"ranks\":[\"b\",\"a\"]", "\"ranks\":{}"},
           {"\"id\":\"b\"", "\"id\":\"a\""},
           {"\"id\":\"b\"", "\"id\":\"\""},
           {"\"port\":4000", "\"port\":70000"},
           {"\"ready\":true", "\"ready\":1"},
           {"\"apart\":true", "\"apart\":1"},
           {"\"left_out\":true", "\"left_out\":1"},
           {"\"leaves_in_ms\":90000", "\"leaves_in_ms\":-1"},
           {"\"progress\":1200", "\"progress\":-2"},
           {"\"progress\":1200", "\"progress\":18446744073709551615"},
           {"\"ranks\":[\"b\",\"a\"]", "\"ranks\":[\"b\",\"b\"]"},
           {"\"ranks\":[\"b\",\"a\"]", "\"ranks\":[\"b\",\"\"]"},
           {"\"name\":\"host-b\"", "\"name\":\"\\u001b[2J\""}}) {
    std::string text = good;
    ASSERT_NE(text.find(from), text.npos) << from;
    text.replace(text.find(from), std::string_view(from).size(), to);
    EXPECT_FALSE(parse_record(text)) << to;
  }
  EXPECT_FALSE(parse_record("[]"));
  EXPECT_FALSE(parse_record(good + std::string(longest_record, ' ')));
  Record named = full();
  named.members[1].name = std::string(longest_text + 1, 'x');
  EXPECT_FALSE(parse_record(to_json(named)));
  EXPECT_FALSE(parse_record(""));
}

}  // namespace
}  // namespace spotter::gang
