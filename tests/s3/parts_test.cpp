// The parts of the client that need no server.
#include <gtest/gtest.h>

#include "agent/aws/s3/address.hpp"
#include "agent/aws/s3/checksum.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/aws/s3/crc.hpp"
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

// The check value of the catalogue (reveng.sourceforge.io).
TEST(Crc64Nvme, IsThatOfTheCatalogueHoweverItIsCut) {
  EXPECT_EQ(crc64nvme(0, "123456789"), 0xAE8B14860A799888U);
  const std::string bytes = s3_test::noise(1000);
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 7) {
    const auto first = std::string_view(bytes).substr(0, cut);
    EXPECT_EQ(crc64nvme(crc64nvme(0, first), std::string_view(bytes).substr(cut)),
              crc64nvme_by_table(0, bytes));
  }
}

Checksum said(std::string_view header, const std::string& value) {
  return checksum_of({.headers = {{std::string(header), value}}});
}

bool matches(const Checksum& checksum, std::string_view bytes, std::size_t at_once = 3) {
  Digest digest(checksum);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(at_once, bytes.size())))
    digest.add(bytes.substr(0, at_once));
  return digest.matches();
}

// By openssl, xxhsum and the catalogue, of "123456789".
TEST(Checksum, OfEachKindIsCompared) {
  const std::pair<const char*, const char*> values[] = {
      {"crc32", "y/Q5Jg=="},
      {"crc32c", "4waSgw=="},
      {"crc64nvme", "rosUhgp5mIg="},
      {"md5", "JfnnlDI7RTiF9RgfG2JNCw=="},
      {"sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="},
      {"sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="},
      {"sha512",
       "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ=="},
      {"xxhash64", "jLhB20DmroM="},
      {"xxhash3", "ctyxi2ehff8="},
      {"xxhash128", "MxGUd+3l3NXpcWQnaB1YYA=="}};
  for (const auto& [name, value] : values) {
    const Checksum checksum = said(std::string("x-amz-checksum-") + name, value);
    ASSERT_NE(checksum.header, "") << name;
    EXPECT_TRUE(matches(checksum, "123456789")) << name;
    EXPECT_FALSE(matches(checksum, "123456780")) << name;
  }
  EXPECT_TRUE(matches(said("x-amz-checksum-crc99", "AAAA"), "anything"));
}

TEST(Checksum, OfAMultipartUploadsPartsIsComparedOnceTheirBordersAreKnown) {
  const std::string bytes = s3_test::noise(10);
  std::string sums;
  for (const auto& part : {bytes.substr(0, 4), bytes.substr(4, 4), bytes.substr(8)})
    sums += bytes_of(crc32c(0, part));
  Checksum checksum =
      said("x-amz-checksum-crc32c", wire::to_base64(bytes_of(crc32c(0, sums))) + "-3");
  EXPECT_EQ(checksum.parts, 3U);
  EXPECT_TRUE(checksum.lacks_borders());
  EXPECT_TRUE(matches(checksum, "other bytes"));  // nobody can say
  learn_borders(checksum, {.headers = {{"content-length", "3"}}}, bytes.size());
  EXPECT_TRUE(checksum.lacks_borders());  // of 3 bytes there would be four parts
  learn_borders(checksum, {.headers = {{"content-length", "4"}}}, bytes.size());
  for (const std::size_t at_once : {1U, 4U, 7U, 10U}) {
    EXPECT_TRUE(matches(checksum, bytes, at_once));
    EXPECT_FALSE(matches(checksum, bytes.substr(1), at_once));
    EXPECT_FALSE(matches(checksum, bytes + "more", at_once));
  }
  EXPECT_EQ(checksum_of({.headers = {{"x-amz-checksum-crc32c", "4waSgw=="},
                                     {"x-amz-checksum-type", "COMPOSITE"}}})
                .header,
            "");
}

TEST(Checksum, OfAnUploadInOnePartNeedsNoBorders) {
  const Checksum checksum =
      said("x-amz-checksum-crc32c",
           wire::to_base64(bytes_of(crc32c(0, bytes_of(crc32c(0, "abc"))))) + "-1");
  EXPECT_TRUE(matches(checksum, "abc"));
  EXPECT_FALSE(matches(checksum, "abd"));
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
