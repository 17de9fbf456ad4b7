// The ends of records, and bytes that are no record.
#include "trainer/library/recordio.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/channel/records.hpp"

namespace spotter::channel {
namespace {

using test::record_of;
using test::record_part;
using Kind = Format::Kind;

// Records for a reader that is given `step` bytes more each time; the last text says what is left.
std::vector<std::string> cut_all(std::string_view bytes, Format format, std::size_t step) {
  Framing framing(format);
  std::vector<std::string> all;
  std::size_t begin = 0;
  for (std::size_t end = 0;;) {
    const auto record = framing.cut(bytes.substr(begin, end - begin));
    if (!record) {
      all.push_back("failed: " + record.error().message);
      return all;
    }
    if (*record) {
      all.emplace_back((*record)->bytes);
      begin += (*record)->taken;
    } else if (end == bytes.size()) {
      if (begin != end) all.push_back("left: " + std::to_string(end - begin));
      return all;
    } else {
      end = std::min(bytes.size(), end + step);
    }
  }
}

void expect_cut(const std::string& bytes, Format format, const std::vector<std::string>& expected) {
  for (const std::size_t step : {std::size_t{1}, std::size_t{5}, bytes.size() + 1}) {
    EXPECT_EQ(cut_all(bytes, format, step), expected) << "in steps of " << step;
  }
}

TEST(Framing, RecordsOfOneSize) {
  expect_cut("", {Kind::Fixed, 3}, {});
  expect_cut("abcdef", {Kind::Fixed, 3}, {"abc", "def"});
  expect_cut("abcdefgh", {Kind::Fixed, 3}, {"abc", "def", "left: 2"});
}

TEST(Framing, LinesAndOnesThatHaveNoEnd) {
  expect_cut("one\n\nthree\r\n", {Kind::Lines}, {"one", "", "three\r"});
  expect_cut("one\ntw", {Kind::Lines}, {"one", "left: 2"});
}

TEST(Framing, RecordIo) {
  std::string stream;
  std::vector<std::string> records;
  for (std::size_t size = 0; size < 20; ++size) {
    records.emplace_back(size, static_cast<char>('a' + size));
    stream += record_of(records.back());
  }
  expect_cut(stream, {Kind::RecordIo}, records);
}

TEST(Framing, RecordsWithTheMagicInThem) {
  const std::string magic = wire::record_header(0).substr(0, 4);
  const std::vector<std::string> records = {magic, magic + magic,
                                            "abcd" + magic + "efgh" + magic + "ij",
                                            "a" + magic + "bc",  // at no multiple of four: not cut
                                            "after"};
  std::string stream;
  for (const auto& record : records) stream += record_of(record);
  expect_cut(stream, {Kind::RecordIo}, records);
}

TEST(Framing, WhatIsNoRecordIo) {
  const std::string good = record_of("good");
  expect_cut(good + "bad magic", {Kind::RecordIo},
             {"good", "failed: no RecordIO record begins here"});
  expect_cut(good + record_part("x", 5), {Kind::RecordIo},
             {"good", "failed: a RecordIO record with an unknown flag"});
  for (const unsigned flag : {2U, 3U}) {
    expect_cut(good + record_part("x", flag), {Kind::RecordIo},
               {"good", "failed: a part of a RecordIO record, without its begin"});
  }
  for (const unsigned flag : {0U, 1U}) {
    expect_cut(record_part("abcd", 1) + record_part("x", flag), {Kind::RecordIo},
               {"failed: a RecordIO record begins inside another one"});
  }
}

TEST(Framing, ACutOffRecordIsNeverWhole) {
  const std::string stream = record_of("abc") + record_of("abcd" + wire::record_header(0));
  const std::size_t first = record_of("abc").size();
  for (std::size_t size = 1; size < stream.size(); ++size) {
    if (size == first) continue;
    const auto cut = cut_all(stream.substr(0, size), {Kind::RecordIo}, 3);
    EXPECT_TRUE(cut.back().starts_with("left: ")) << size << ": " << cut.back();
  }
}

}  // namespace
}  // namespace spotter::channel
