// The parts of the client that need no server.
#include <gtest/gtest.h>

#include "agent/aws/s3/address.hpp"
#include "agent/aws/s3/checksum.hpp"
#include "agent/aws/s3/crc32c.hpp"
#include "agent/aws/s3/piece.hpp"
#include "agent/aws/s3/window.hpp"
#include "tests/s3/fixture.hpp"

namespace spotter::s3 {
namespace {

using namespace std::chrono_literals;

TEST(Crc32c, IsThatOfTheStandardHoweverItIsCut) {
  EXPECT_EQ(crc32c(0, "123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(0, std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  const std::string bytes = s3_test::noise(1000);
  for (std::size_t cut = 0; cut < 20; ++cut) {
    const auto first = std::string_view(bytes).substr(0, cut);
    EXPECT_EQ(crc32c(crc32c(0, first), std::string_view(bytes).substr(cut)),
              crc32c_by_table(0, bytes));
  }
}

TEST(Checksum, OfAMultipartUploadsPartsIsNone) {
  EXPECT_EQ(checksum_of({.headers = {{"x-amz-checksum-crc32c", "4waSgw==-3"}}}).kind,
            Checksum::Kind::None);
  EXPECT_EQ(checksum_of({.headers = {{"x-amz-checksum-crc32c", "4waSgw=="},
                                     {"x-amz-checksum-type", "COMPOSITE"}}})
                .kind,
            Checksum::Kind::None);
  EXPECT_EQ(checksum_of({.headers = {{"x-amz-checksum-crc32c", "4waSgw=="}}}).kind,
            Checksum::Kind::Crc32c);
}

Addresses addresses(std::map<std::string, std::string, std::less<>> environment,
                    Settings::Style style = Settings::Style::Automatic) {
  environment.emplace("HOME", "/nonexistent");
  return Addresses({.environment = act::Environment(std::move(environment)), .style = style});
}

TEST(Addresses, PutTheBucketIntoTheHostAtAws) {
  const auto all = addresses({{"AWS_REGION", "eu-west-1"}});
  const Address address = all.of("my-bucket", "a b/c");
  EXPECT_EQ(address.base, "https://my-bucket.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(address.path, "/a%20b/c");
  EXPECT_EQ(address.region, Region("eu-west-1"));
}

TEST(Addresses, PutItIntoThePathWhereTheHostCannotHaveIt) {
  const auto all = addresses({});
  EXPECT_EQ(all.of("my.bucket", "k").base + all.of("my.bucket", "k").path,
            "https://s3.us-east-1.amazonaws.com/my.bucket/k");
  EXPECT_EQ(all.of("My_Bucket", "k").path, "/My_Bucket/k");
  const auto own = addresses({{"AWS_ENDPOINT_URL", "http://localhost:4566/s3/"}});
  EXPECT_EQ(own.of("bucket", "k").base + own.of("bucket", "k").path,
            "http://localhost:4566/s3/bucket/k");
  const auto host = addresses({{"AWS_ENDPOINT_URL_S3", "http://minio:80"}}, Settings::Style::Host);
  EXPECT_EQ(host.of("bucket", "k").base, "http://bucket.minio:80");
  EXPECT_EQ(host.of("bucket", "k").host, "bucket.minio");
}

TEST(Addresses, FollowOnlyAwsItself) {
  auto all = addresses({{"AWS_REGION", "us-east-1"}});
  EXPECT_TRUE(all.redirect("bucket", "", "bucket.s3-us-west-2.amazonaws.com"));
  EXPECT_EQ(all.of("bucket", "k").base, "https://bucket.s3-us-west-2.amazonaws.com");
  EXPECT_TRUE(all.redirect("bucket", "us-west-2", ""));
  EXPECT_EQ(all.of("bucket", "k").base, "https://bucket.s3.us-west-2.amazonaws.com");
  EXPECT_FALSE(all.redirect("bucket", "us-west-2", ""));
  EXPECT_FALSE(all.redirect("bucket", "", "evil.example.com"));
  EXPECT_FALSE(all.redirect("bucket", "", "evil.example.com/.amazonaws.com"));
}

// Answers of one server, each of a piece: `apart` from us, so many bytes a second.
std::size_t piece_for(std::chrono::duration<double> apart, double rate) {
  Piece piece;
  EXPECT_EQ(piece.bytes(), least_piece);
  for (int answer = 0; answer < 50; ++answer) {
    const auto bytes = static_cast<double>(piece.bytes());
    // Now and then one waits long behind others.
    piece.measured(piece.bytes(), answer % 3 == 0 ? 1s : apart, Piece::Duration(bytes / rate));
  }
  return piece.bytes();
}

TEST(Piece, IsAsLargeAsTheWayIsLong) {
  EXPECT_EQ(piece_for(200us, 400e6), least_piece);
  EXPECT_EQ(piece_for(8ms, 200e6), 4 * least_piece);
  EXPECT_EQ(piece_for(30ms, 90e6), piece_bytes);
}

TEST(Piece, LearnsNothingFromSmallAnswers) {
  Piece piece;
  piece.measured(64 << 10, 30ms, 1us);
  piece.measured(piece_bytes, 0s, 0s);
  EXPECT_EQ(piece.bytes(), least_piece);
}

// A network where each connection gives so much, all of them at most so much.
double settle(Window& window, double each, double together) {
  Window::Instant now{1h};
  for (int i = 0; i < 200; ++i) {
    now += 50ms;
    const auto width = window.width();
    const double rate = std::min(each * static_cast<double>(width), together);
    window.moved(static_cast<std::uint64_t>(rate * 0.05), width, true, now);
  }
  return std::min(each * static_cast<double>(window.width()), together);
}

TEST(Window, FindsTheWidthThatTheNetworkBears) {
  for (const double each : {5e6, 30e6, 90e6}) {
    Window window({});
    EXPECT_GT(settle(window, each, 1e9), 0.9 * 1e9) << each;
  }
}

TEST(Window, StaysSmallWhereMoreConnectionsGiveNothing) {
  Window window({});
  settle(window, 1e9, 1e9);
  EXPECT_LE(window.width(), 12U);
}

TEST(Window, DoesNotGrowOnWhatTheReaderHoldsBack) {
  Window window({});
  Window::Instant now{1h};
  for (int i = 0; i < 100; ++i) window.moved(1'000'000, window.width(), false, now += 50ms);
  EXPECT_EQ(window.width(), Window::Limits{}.first);
}

TEST(Window, IsHalvedOnceForOneMomentsRefusals) {
  Window window({.first = 16});
  const Window::Instant now{1h};
  for (int i = 0; i < 10; ++i) window.throttled(now + i * 1ms);
  EXPECT_EQ(window.width(), 8U);
  for (int i = 1; i < 10; ++i) window.throttled(now + i * 2s);
  EXPECT_EQ(window.width(), 1U);
}

}  // namespace
}  // namespace spotter::s3
