#include "agent/aws/s3/carriers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace spotter::s3 {
namespace {

using State = Incoming::State;

struct Read {
  State state;
  bool last;
  std::size_t left_over;  // bytes that came when it was over
  Taken taken;
};

// Reads like a connection, so many bytes at once.
Read read(std::string_view bytes, std::size_t step, Plan plan = {.method = "GET"}) {
  Incoming incoming;
  incoming.begin(std::move(plan));
  while (!bytes.empty() && incoming.state() == State::Open) {
    const auto room = incoming.room();
    const auto piece = bytes.substr(0, room.empty() ? step : std::min(step, room.size()));
    if (room.empty()) {
      incoming.take(piece);
    } else {
      std::ranges::copy(piece, room.begin());
      incoming.put(piece.size());
    }
    bytes.remove_prefix(piece.size());
  }
  if (incoming.state() == State::Open) incoming.close();
  return {incoming.state(), incoming.is_last(), bytes.size(), incoming.end(CURLE_OK, {})};
}

constexpr std::string_view sized =
    "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nETag:  \"e\" \r\n\r\nhello";
constexpr std::string_view chunked =
    "HTTP/1.1 503 Slow Down\r\nTransfer-Encoding: Chunked\r\n\r\n"
    "3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";
constexpr std::string_view to_the_end = "HTTP/1.0 200 OK\r\n\r\nhello";
constexpr std::string_view continued =
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

TEST(Incoming, IsTheSameHoweverItIsCut) {
  for (const auto bytes : {sized, chunked, to_the_end, continued}) {
    for (std::size_t step = 1; step <= bytes.size(); ++step) {
      const auto got = read(bytes, step);
      EXPECT_EQ(got.state, State::Whole) << bytes << step;
      EXPECT_EQ(got.taken.answer.body, "hello") << bytes << step;
      EXPECT_EQ(got.left_over, 0U);
    }
  }
  EXPECT_EQ(read(sized, 7).taken.answer.header("etag"), "\"e\"");
  EXPECT_EQ(read(chunked, 7).taken.answer.status, 503);
}

TEST(Incoming, PutsABodyWhereItBelongs) {
  for (const auto bytes : {sized, to_the_end}) {
    for (std::size_t step = 1; step <= bytes.size(); ++step) {
      std::string into(5, '\0');
      std::size_t arrived = 0;
      const auto got = read(bytes, step, {.method = "GET", .into = into, .arrived = &arrived});
      EXPECT_EQ(got.state, State::Whole);
      EXPECT_EQ(into, "hello");
      EXPECT_EQ(arrived, 5U);
      EXPECT_EQ(got.taken.received, 5U);
      EXPECT_TRUE(got.taken.answer.body.empty());
    }
  }
}

TEST(Incoming, PutsNoErrorThere) {
  std::string into(5, '-');
  const auto got = read(chunked, 4, {.method = "GET", .into = into});
  EXPECT_EQ(into, "-----");
  EXPECT_EQ(got.taken.answer.body, "hello");
}

TEST(Incoming, WritesNothingThatIsNotWantedOrTooLong) {
  std::string into(5, '-');
  const auto refuse = [](const Answer&) { return std::string("no"); };
  EXPECT_EQ(read(sized, 9, {.method = "GET", .into = into, .check = refuse}).taken.objection, "no");
  EXPECT_EQ(into, "-----");
  const auto longer = read(sized, 100, {.method = "GET", .into = std::span(into).first(4)});
  EXPECT_EQ(longer.state, State::Wrong);
  EXPECT_TRUE(longer.taken.too_long);
}

TEST(Incoming, KnowsWhatIsCutOff) {
  for (const auto bytes : {sized, chunked}) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(read(bytes.substr(0, size), 8).state, State::Wrong) << bytes.substr(0, size);
    }
  }
}

TEST(Incoming, OfHeadHasNoBody) {
  const auto got = read("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", 6, {.method = "HEAD"});
  EXPECT_EQ(got.state, State::Whole);
  EXPECT_FALSE(got.last);
}

TEST(Incoming, SaysWhetherTheConnectionMayBeUsedAgain) {
  EXPECT_FALSE(read(sized, 9).last);
  EXPECT_FALSE(read(chunked, 9).last);
  EXPECT_TRUE(read(to_the_end, 9).last);
  EXPECT_TRUE(read("HTTP/1.1 204 X\r\nConnection: Close\r\n\r\n", 9).last);
  EXPECT_TRUE(read(std::string(sized) + "HTTP/1.1 ", 1000).last);  // nobody asked for that
}

TEST(Incoming, IsNoGarbage) {
  for (const std::string_view bytes :
       {"", "220 mail.example.com ESMTP\r\n\r\n", "HTTP/1.1 x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n"}) {
    EXPECT_EQ(read(bytes, 10).state, State::Wrong) << bytes;
  }
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'), 1024).state, State::Wrong);
}

}  // namespace
}  // namespace spotter::s3
