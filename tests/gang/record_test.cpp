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
                .torn = 2,
                .given_back = 1,
                .sound = 2,
                .progress = 1200,
                .newest = 1300};
  record.members.push_back(
      {.id = "a", .name = "host-a", .beats = 3, .leaves_in = Duration(90'000)});
  record.members.push_back({.id = "b",
                            .name = "host-b",
                            .beats = 9,
                            .ready = true,
                            .address = "10.0.0.2",
                            .port = 4000,
                            .word = "5eed",
                            .end = End::Torn,
                            .apart = true,
                            .missed = "a",
                            .trained = true,
                            .faults = 2,
                            .replaced = true,
                            .given_back = true,
                            .left_out = true});
  record.faults = {{"host-c", 1}};
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
  record.progress = record.newest = INT64_MAX;
  record.round = record.members[0].beats = UINT64_MAX;
  record.members[0].leaves_in = std::chrono::days(30);
  record.members[1].leaves_in = Duration(-1);
  const auto read = parse_record(to_json(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->progress, most_steps);
  EXPECT_EQ(read->newest, most_steps);
  EXPECT_EQ(read->members[0].leaves_in, longest_leave);
  EXPECT_EQ(read->members[1].leaves_in, Duration(0));
}

// An older version that rewrites it erases nothing of what a later one has written.
TEST(GangRecord, HandsOnWhatALaterVersionHasWritten) {
  std::string text = to_json(full());
  text.replace(text.find("\"id\":\"b\""), 8, "\"id\":\"b\",\"cards\":[1,{\"x\":null}]");
  text.replace(text.find("\"job\""), 5, "\"epoch\":{\"of\":3},\"job\"");
  auto read = parse_record(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->unknown, R"({"epoch":{"of":3}})");
  EXPECT_EQ(read->find("b")->unknown, R"({"cards":[1,{"x":null}]})");
  EXPECT_EQ(read->find("a")->unknown, "");
  read->round = 8;
  std::erase_if(read->members, [](const Member& each) { return each.id == "a"; });
  const std::string next = to_json(*read);
  EXPECT_NE(next.find(R"("epoch":{"of":3})"), next.npos) << next;
  EXPECT_NE(next.find(R"("cards":[1,{"x":null}])"), next.npos) << next;
  EXPECT_EQ(*parse_record(next), *read);
}

std::string json_of(std::size_t bytes) { return R"({"x":")" + std::string(bytes - 8, 'y') + "\"}"; }

TEST(GangRecord, IsRefusedWhereALaterVersionHasWrittenTooMuch) {
  Record record = full();
  record.unknown = json_of(longest_unknown);
  record.members[0].unknown = json_of(longest_unknown_of_a_member);
  const auto read = parse_record(to_json(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
  Record of_record = record, of_member = record;
  of_record.unknown = json_of(longest_unknown + 1);
  of_member.members[0].unknown = json_of(longest_unknown_of_a_member + 1);
  for (const Record& each : {of_record, of_member}) {
    const auto refused = parse_record(to_json(each));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("install that version"), std::string::npos);
  }
}

TEST(GangRecord, OfWhichAllIsAtItsLimitIsReadAsItWasWritten) {
  Record record = full();
  record.members.clear();
  record.faults.clear();
  record.ranks.clear();
  for (std::size_t i = 0; i < most_members; ++i) {
    // A quote becomes two bytes.
    const std::string text = std::to_string(1000 + i) + std::string(longest_text - 4, '"');
    record.members.push_back({.id = text,
                              .name = text,
                              .beats = static_cast<std::uint64_t>(most_steps),
                              .ready = true,
                              .address = text,
                              .port = UINT16_MAX,
                              .word = std::string(longest_word, '"'),
                              .end = End::Failed,
                              .apart = true,
                              .missed = text,
                              .trained = true,
                              .faults = UINT32_MAX,
                              .replaced = true,
                              .given_back = true,
                              .left_out = true,
                              .leaves_in = longest_leave,
                              .unknown = json_of(longest_unknown_of_a_member)});
    record.faults[text] = UINT32_MAX;
    record.ranks.push_back(text);
  }
  record.job = record.writer = std::string(longest_text, '"');
  record.unknown = json_of(longest_unknown);
  const auto read = parse_record(to_json(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST(GangRecord, KnowsEachOfItsOwnFields) {
  const auto read = parse_record(to_json(full()));
  EXPECT_EQ(read->unknown, "");
  EXPECT_EQ(read->find("b")->unknown, "");
}

// Holds even if an unknown field has this version's name for a field that this one leaves out.
TEST(GangRecord, SaysNoFieldTwice) {
  Record record = full();
  record.unknown = R"({"round":99,"faults":{"x":9}})";
  EXPECT_EQ(parse_record(to_json(record))->round, 7u);
  EXPECT_EQ(parse_record(to_json(record))->faults.at("host-c"), 1u);
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
           {"\"faults\":{\"host-c\":1}", "\"faults\":{\"host-c\":-1}"},
           {"\"faults\":{\"host-c\":1}", "\"faults\":[1]"},
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
