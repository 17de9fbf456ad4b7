// The record of finished files.
#include "agent/guard/record.hpp"

#include <gtest/gtest.h>

#include "tests/guard/folder.hpp"

namespace spotter::guard {
namespace {

Entry file(const std::string& name) {
  Entry entry;
  entry.name = name;
  entry.bytes = 7;
  entry.mtime_ns = 1'700'000'000'123'456'789;
  entry.sum = "0123456789abcdef0123456789abcdef";
  return entry;
}

TEST(TheRecord, ComesBackAsItWas) {
  Record record;
  record.watching = true;
  record.run = 3;
  record.finish(file("a.pt"));
  record.finish(file("sub/b \xc3\xa9.pt")).kept = "000001";
  record.files.front().gone = true;
  const auto read = decode(encode(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST(TheRecord, IsRefusedForEveryFlippedBitAndEveryCut) {
  Record record;
  record.finish(file("a.pt"));
  const std::string whole = encode(record);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    EXPECT_FALSE(decode(flipped)) << at;
    EXPECT_FALSE(decode(whole.substr(0, at))) << at;
  }
}

TEST(TheRecord, OfANewerSpotterIsNotTakenForADamagedOne) {
  const auto newer = decode(newer_record(encode({})));
  ASSERT_FALSE(newer);
  EXPECT_TRUE(wire::is_newer(newer.error()));
  EXPECT_NE(newer.error().message.find("written by a newer Spotter (format 3"), std::string::npos)
      << newer.error().message;
  EXPECT_FALSE(wire::is_newer(decode("{}").error()));
}

TEST(TheRecord, CountsANewNameAsProgress) {
  Record record;
  for (const char* name : {"epoch-1.pt", "epoch-2.pt", "epoch-3.pt"}) record.finish(file(name));
  EXPECT_EQ(record.step, 3U);
  EXPECT_EQ(record.newest()->name, "epoch-3.pt");
}

TEST(TheRecord, CountsTheSameNameOnlyWhenOneRunWritesItAgain) {
  Record record;
  record.run = 1;
  for (int i = 0; i < 3; ++i) record.finish(file("last.ckpt"));
  EXPECT_EQ(record.step, 3U);
  // A trainer that crashes after its first checkpoint, and begins from scratch each time.
  for (int crash = 0; crash < 5; ++crash) {
    ++record.run;
    record.finish(file("last.ckpt"));
  }
  EXPECT_EQ(record.step, 3U);
  record.finish(file("last.ckpt"));
  EXPECT_EQ(record.step, 4U);
}

TEST(TheRecord, RemembersANameThatIsGone) {
  Record record;
  record.finish(file("epoch-1.pt"));
  record.files.front().gone = true;
  EXPECT_EQ(record.newest(), nullptr);
  ++record.run;
  record.finish(file("epoch-1.pt"));
  EXPECT_EQ(record.step, 1U) << "done before, and removed since";
  EXPECT_EQ(record.files.size(), 1U);
}

}  // namespace
}  // namespace spotter::guard
