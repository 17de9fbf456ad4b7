// The parts of the data plane that need neither S3 nor a reader.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <deque>
#include <random>

#include "agent/data/catalogue.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/memory.hpp"
#include "agent/data/stream.hpp"

namespace spotter::data {
namespace {

TEST(Memory, GivesNoByteToTwoAndAllOfThemAgain) {
  constexpr std::size_t capacity = 64 * 4096;
  auto memory = *Memory::make(capacity);
  struct Held {
    Memory::Piece piece;
    std::size_t size;
    char mark;
  };
  std::deque<Held> held;
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t size = 1 + random() % (20 * 4096);
    const auto piece = memory.take(size);
    if (piece.memory != nullptr) {
      const char mark = static_cast<char>(round);
      std::fill_n(piece.memory, size, mark);
      held.push_back({piece, size, mark});
    }
    EXPECT_LE(memory.used(), capacity);
    // Mostly in order, as a stream does; sometimes not, as when an epoch is dropped.
    while (!held.empty() && (piece.memory == nullptr || random() % 2 == 0)) {
      const auto which = random() % 8 == 0 ? random() % held.size() : 0;
      const Held one = held[which];
      ASSERT_EQ(std::count(one.piece.memory, one.piece.memory + one.size, one.mark),
                static_cast<std::ptrdiff_t>(one.size));
      memory.give_back(one.piece.region);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      if (piece.memory != nullptr) break;
    }
  }
  for (const auto& one : held) memory.give_back(one.piece.region);
  EXPECT_EQ(memory.used(), 0U);
  EXPECT_NE(memory.take(capacity).memory, nullptr);
}

TEST(Order, HasEachObjectOnceAndIsTheSameEverywhere) {
  for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
    auto order = shuffled(count, 7, 3);
    EXPECT_EQ(order, shuffled(count, 7, 3));
    std::ranges::sort(order);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(order[i], i);
  }
  EXPECT_NE(shuffled(100, 7, 0), shuffled(100, 7, 1));
  EXPECT_NE(shuffled(100, 7, 0), shuffled(100, 8, 0));
  // The position in every checkpoint is worth nothing when this changes.
  EXPECT_EQ(shuffled(8, 7, 3), (std::vector<std::uint32_t>{4, 1, 3, 5, 2, 7, 6, 0}));
}

TEST(Order, SharesAreAllThereIs) {
  for (const std::size_t objects : {0U, 1U, 2U, 3U, 10U}) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += share(objects, {i, 3});
    EXPECT_EQ(sum, objects);
  }
}

std::string packed(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(bytes.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// In pieces of so many bytes, into room for so many.
Result<std::string> unpacked(const std::string& in, std::size_t piece, std::size_t room) {
  Gunzip gunzip;
  std::string out;
  std::size_t at = 0;
  for (bool more = true; more;) {
    const std::size_t before = out.size();
    const auto used = gunzip.unpack(std::string_view(in).substr(at, piece), out, room);
    if (!used) return tl::unexpected(used.error());
    at += *used;
    more = *used > 0 || out.size() > before;
  }
  if (auto ended = gunzip.end(); !ended) return tl::unexpected(ended.error());
  return out;
}

TEST(Gunzip, UnpacksHoweverItIsCut) {
  const std::string first(100'000, 'a');
  const std::string second = "and another member";
  const std::string both = packed(first) + packed(second) + packed("");
  for (const std::size_t piece : {1U, 7U, 1000U, 1'000'000U}) {
    for (const std::size_t room : {1000U, 1U << 20}) {
      for (const auto& padding : {std::string(), std::string(512, '\0')}) {
        const auto out = unpacked(both + padding, piece, room);
        ASSERT_TRUE(out) << out.error().message;
        EXPECT_EQ(*out, first + second);
      }
    }
  }
}

TEST(Gunzip, SaysWhatIsNone) {
  const std::string good = packed("some bytes that are packed");
  EXPECT_FALSE(unpacked(good.substr(0, good.size() - 1), 1000, 1000));
  EXPECT_FALSE(unpacked("no gzip", 1000, 1000));
  std::string bad = good;
  bad[good.size() - 5] ^= 1;  // of the checksum
  EXPECT_FALSE(unpacked(bad, 1000, 1000));
  EXPECT_TRUE(unpacked("", 1000, 1000));
  const auto trailed = unpacked(good + "more", 1000, 1000);
  ASSERT_FALSE(trailed);
  EXPECT_NE(trailed.error().message.find("is behind its end"), std::string::npos);
}

TEST(FileName, IsTheKeyBelowThePrefix) {
  EXPECT_EQ(*file_name("data/", "data/a/b.bin"), "a/b.bin");
  EXPECT_EQ(*file_name("data", "data/a/b.bin"), "a/b.bin");
  EXPECT_EQ(*file_name("", "data/a"), "data/a");
  EXPECT_EQ(*file_name("data/part-", "data/part-1"), "part-1");
  EXPECT_EQ(*file_name("data/one.bin", "data/one.bin"), "one.bin");
  for (const char* key : {"d/", "d/a/", "d//a", "d/../a", "d/a/..", "d/."})
    EXPECT_FALSE(file_name("d/", key)) << key;
  EXPECT_FALSE(file_name("", std::string(256, 'a')));
  EXPECT_FALSE(file_name("", std::string_view("a\0b", 3)));
}

TEST(Fetched, BelievesWholeLinesOnlyAndTheLastOne) {
  const std::string whole = "[\"a\",5,\"e\",17]\n[\"b\",3,\"f\"]\nnonsense\n[\"b\",4,\"f\"]\n";
  const std::map<std::string, Fetched::File> expected{{"a", {5, "e", 17}},
                                                      {"b", {4, "f", std::nullopt}}};
  EXPECT_EQ(Fetched::parse(whole), expected);
  EXPECT_EQ(Fetched::parse(whole + "[\"a\",9,\"e\""), expected);
  EXPECT_EQ(Fetched::parse(whole + "[\"a\",-9,\"e\"]\n[1,2,3]\n[]\n"), expected);
}

}  // namespace
}  // namespace spotter::data
