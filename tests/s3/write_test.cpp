#include "agent/aws/s3/objects.hpp"
#include "tests/s3/fixture.hpp"

namespace spotter::s3_test {
namespace {

using Kind = s3::Failure::Kind;

class Write : public S3 {};

TEST_F(Write, PutsAndRemoves) {
  const auto etag = s3::put(client_, at("a b"), "hello");
  ASSERT_TRUE(etag) << etag.error().text();
  EXPECT_EQ(*etag, server_.find("a b")->etag);
  EXPECT_EQ(server_.find("a b")->bytes, "hello");
  EXPECT_TRUE(s3::remove(client_, at("a b")));
  EXPECT_FALSE(server_.find("a b"));
  EXPECT_TRUE(s3::remove(client_, at("a b")));
}

TEST_F(Write, OfTwoWhoWantToBeFirstOneIs) {
  ASSERT_TRUE(s3::put(client_, at("claim"), "me", {.absent = true}));
  const auto second = s3::put(client_, at("claim"), "you", {.absent = true});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, Kind::Exists);
  EXPECT_EQ(server_.find("claim")->bytes, "me");
}

// The first attempt is carried out, its answer lost; the second one hears that it is too late.
TEST_F(Write, KnowsItsOwnWorkWhenAnAnswerWasLost) {
  std::atomic<int> left = 1;
  server_.trouble([&](const Request& request, Reply& reply) {
    if (request.method == "PUT" && left-- > 0)
      reply = {.headers = {{"Content-Length", "9"}}, .cut_after = 0};
  });
  const auto etag = s3::put(client_, at("claim"), "me", {.absent = true});
  ASSERT_TRUE(etag) << etag.error().text();
  EXPECT_EQ(*etag, server_.find("claim")->etag);
}

TEST_F(Write, SendsLargeObjectsInPartsAndSmallOnesAtOnce) {
  const std::string big = noise((40U << 20) + 17);
  const std::string small = noise(1000);
  const std::array objects{s3::NewObject{at("big"), big}, s3::NewObject{at("small"), small},
                           s3::NewObject{at("none"), ""}};
  const auto etags = s3::upload(client_, objects);
  ASSERT_TRUE(etags) << etags.error().text();
  EXPECT_TRUE(server_.find("big")->bytes == big);
  EXPECT_EQ(server_.find("small")->bytes, small);
  EXPECT_EQ(server_.find("none")->bytes, "");
  EXPECT_EQ((*etags)[0], server_.find("big")->etag);
  EXPECT_EQ(server_.open_uploads(), 0U);
}

TEST_F(Write, LeavesNoHalfUploadBehind) {
  server_.refuse([](const Request& request) -> std::optional<Reply> {
    const auto part = request.query.find("partNumber");
    if (part == request.query.end() || part->second != "2") return std::nullopt;
    return refusal(403, "AccessDenied");
  });
  const std::string big = noise(40U << 20);
  const std::array objects{s3::NewObject{at("big"), big}};
  const auto etags = s3::upload(client_, objects);
  ASSERT_FALSE(etags);
  EXPECT_EQ(etags.error().kind, Kind::Permission);
  EXPECT_EQ(server_.open_uploads(), 0U);
  EXPECT_FALSE(server_.find("big"));
}

TEST_F(Write, ReadsTheErrorInsideACompletionThatSays200) {
  std::atomic<int> left = 1;
  server_.trouble([&](const Request& request, Reply& reply) {
    if (request.method == "POST" && request.query.contains("uploadId") && left-- > 0) {
      reply.body = "<Error><Code>InternalError</Code></Error>";
    }
  });
  const std::string big = noise(20U << 20);
  const std::array objects{s3::NewObject{at("big"), big}};
  // The completion was carried out all the same: the next one finds no upload, and then itself.
  const auto etags = s3::upload(client_, objects);
  ASSERT_TRUE(etags) << etags.error().text();
  EXPECT_EQ((*etags)[0], server_.find("big")->etag);
}

}  // namespace
}  // namespace spotter::s3_test
