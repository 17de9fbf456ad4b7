#include "agent/wire/head.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

decide::Epoch an_epoch() {
  decide::Epoch epoch;
  epoch.state = decide::Epoch::State::Moving;
  epoch.number = 7;
  epoch.line = "vol-0a";
  epoch.volume = "vol-0b";
  epoch.generation = 3;
  epoch.holder = "i-0c";
  epoch.left = "vol-0d";
  return epoch;
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = to_json(an_epoch());
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Epoch, ReadsAsItWasWritten) {
  for (const auto state : {decide::Epoch::State::Using, decide::Epoch::State::Moving,
                           decide::Epoch::State::Released, decide::Epoch::State::Done}) {
    decide::Epoch epoch = an_epoch();
    epoch.state = state;
    const auto read = parse_epoch(to_json(epoch));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->state, state);
    EXPECT_EQ(read->number, 7U);
    EXPECT_EQ(read->line, VolumeId("vol-0a"));
    EXPECT_EQ(read->volume, VolumeId("vol-0b"));
    EXPECT_EQ(read->generation, 3U);
    EXPECT_EQ(read->holder, InstanceId("i-0c"));
    EXPECT_EQ(read->left, VolumeId("vol-0d"));
  }
}

// An older agent reads it, and S3 compares bytes.
TEST(Epoch, AndAHeadHaveTheseBytes) {
  EXPECT_EQ(to_json(an_epoch()),
            R"({"epoch":7,"generation":3,"holder":"i-0c","left":"vol-0d","line":"vol-0a",)"
            R"("state":"moving","version":1,"volume":"vol-0b"})"
            "\n");
  EXPECT_EQ(to_json(decide::Epoch{}), R"({"epoch":0,"generation":0,"holder":"","left":"",)"
                                      R"("line":"","state":"released","version":1,"volume":""})"
                                      "\n");
  Head head;
  head.epoch = an_epoch();
  EXPECT_EQ(to_json(head), R"({"bytes":0,"commits":0,"epoch":7,"holder":"i-0c","job":"",)"
                           R"("manifest":"","state":"moving","version":1})"
                           "\n");
  head = {.epoch = {},
          .job = "j",
          .id = "0",
          .commits = 1,
          .attempt = 2,
          .manifest = "m",
          .newest = 0,
          .bytes = 3,
          .s3_writes = 4,
          .s3_reads = 5};
  EXPECT_EQ(to_json(head), R"({"attempt":2,"bytes":3,"commits":1,"epoch":0,"holder":"","id":"0",)"
                           R"("job":"j","manifest":"m","newest":0,"s3_reads":5,"s3_writes":4,)"
                           R"("state":"released","version":1})"
                           "\n");
}

TEST(Epoch, NeedNotHaveAnOriginalThatIsLeft) {
  const auto read = parse_epoch(with(R"("left":"vol-0d")", R"("left":"")"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->left.empty());
}

// An agent that took such an object for none would write over it, and use a volume that another
// instance has.
TEST(Epoch, IsRefusedWhereItIsNotWhole) {
  EXPECT_FALSE(parse_epoch(""));
  EXPECT_FALSE(parse_epoch("[]"));
  EXPECT_FALSE(parse_epoch("{}"));
  const std::string whole = to_json(an_epoch());
  EXPECT_FALSE(parse_epoch(whole.substr(0, whole.size() / 2)));
  EXPECT_FALSE(parse_epoch(with(R"("moving")", R"("resting")")));
  EXPECT_FALSE(parse_epoch(with(R"("epoch":7)", R"("epoch":0)")));
  EXPECT_FALSE(parse_epoch(with(R"("epoch":7)", R"("epoch":-7)")));
  EXPECT_FALSE(parse_epoch(with(R"("epoch":7)", R"("epoch":4294967295)"))) << "the next one";
  EXPECT_FALSE(parse_epoch(with(R"("generation":3)", R"("generation":"3")")));
  EXPECT_FALSE(parse_epoch(with(R"("generation":3,)", "")));
  EXPECT_FALSE(parse_epoch(with(R"("vol-0b")", R"("")")));
  EXPECT_FALSE(parse_epoch(with(R"("vol-0b")", R"("vol-../x")")));
  EXPECT_FALSE(parse_epoch(with(R"("i-0c")", R"("vol-0c")")));
  EXPECT_FALSE(parse_epoch(with(R"("i-0c")", "\"i-" + std::string(60, '0') + "\"")))
      << "cut to its length it would be another instance";
}

TEST(Epoch, OfALaterFormatIsNotWrittenOver) {
  const auto read = parse_epoch(with(R"("version":1)", R"("version":2)"));
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("epoch"), std::string::npos);
}

}  // namespace
}  // namespace spotter::wire
