#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <latch>

#include "agent/aws/s3/crc.hpp"
#include "tests/s3/fixture.hpp"

namespace spotter::s3_test {
namespace {

using Kind = s3::Failure::Kind;

class Read : public S3 {};

TEST_F(Read, GivesTheWholeObjectWithItsETag) {
  server_.put("a", "hello");
  const auto content = s3::read(client_, at("a"));
  ASSERT_TRUE(content) << content.error().text();
  EXPECT_EQ(content->bytes, "hello");
  EXPECT_EQ(content->object.etag, server_.find("a")->etag);
}

TEST_F(Read, FindsKeysOfAnyLetters) {
  const std::string key = "a b/c+d/\xC3\xBC&<%/../x";
  server_.put(key, "odd");
  const auto content = s3::read(client_, at(key));
  ASSERT_TRUE(content) << content.error().text();
  EXPECT_EQ(content->bytes, "odd");
}

TEST_F(Read, SaysWhatIsMissing) {
  EXPECT_EQ(s3::read(client_, at("none")).error().kind, Kind::NoSuchKey);
  EXPECT_EQ(s3::head(client_, at("none")).error().kind, Kind::NoSuchKey);
  const auto elsewhere = s3::read(client_, {"other", "none"});
  EXPECT_EQ(elsewhere.error().kind, Kind::NoSuchBucket);
  EXPECT_EQ(elsewhere.error().text(),
            "s3://other/none: there is no such bucket (NoSuchBucket, HTTP 404: m)");
}

TEST_F(Read, TakesALargeObjectInPiecesAtOnce) {
  const std::string bytes = noise(20U << 20);
  server_.put("big", bytes);
  std::string into(bytes.size(), '\0');
  const auto read = read_into(client_, object("big", bytes.size()), into);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(into == bytes);
}

TEST_F(Read, GoesOnAtTheByteWhereTheConnectionBroke) {
  const std::string bytes = noise(1U << 20);
  server_.put("big", bytes);
  server_.trouble([](const Request& request, Reply& reply) {
    if (request.method == "GET") reply.cut_after = 200'000;
  });
  std::string into(bytes.size(), '\0');
  const auto read = read_into(client_, object("big", bytes.size()), into);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(into == bytes);
  std::size_t asked = 0;
  for (const auto& request : server_.requests()) {
    const std::string range = request.header("range");
    if (range.empty()) continue;
    const std::size_t first = std::stoul(range.substr(6));
    EXPECT_GT(first, asked);  // never again what was there
    asked = first;
    EXPECT_FALSE(request.header("if-match").empty());  // and of the same object
  }
  EXPECT_GE(asked, 800'000U);
}

TEST_F(Read, IsNotDisturbedByAServerThatLeavesBehindEachAnswer) {
  server_.put("a", "hello");
  server_.trouble([](const Request&, Reply& reply) { reply.cut_after = reply.body.size(); });
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(s3::read(client_, at("a")));
  EXPECT_EQ(client_.tally().reads, 50U);
}

TEST_F(Read, TakesErrorsInChunks) {
  server_.refuse([](const Request&) {
    return Reply{.status = 404,
                 .headers = {{"Transfer-Encoding", "chunked"}, {"Content-Length", "0"}},
                 .body = "1d\r\n<Error><Code>NoSuchKey</Code>\r\n8\r\n</Error>\r\n0\r\n\r\n"};
  });
  EXPECT_EQ(s3::read(client_, at("none")).error().code, "NoSuchKey");
}

TEST_F(Read, OfAnObjectThatIsReplacedMidwayIsAnErrorAndNoMixture) {
  server_.put("big", noise(1U << 20, 1));
  server_.trouble([this](const Request& request, Reply& reply) {
    if (request.method != "GET" || !request.header("range").empty()) return;
    reply.cut_after = 300'000;
    server_.put("big", noise(1U << 20, 2));
  });
  std::string into(1U << 20, '\0');
  const auto read = read_into(client_, object("big", into.size()), into);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, Kind::Changed);
}

TEST_F(Read, NoticesAnotherETagEvenWhereIfMatchIsNotKnown) {
  server_.put("a", "hello");
  server_.trouble([](const Request&, Reply& reply) {
    reply = {.headers = {{"ETag", "\"other\""}}, .body = "jello"};
  });
  std::string into(5, '\0');
  const auto read = read_into(client_, object("a", 5, "\"mine\""), into);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, Kind::Changed);
  EXPECT_EQ(into, std::string(5, '\0'));
}

TEST_F(Read, ChecksTheBytesAgainstS3sChecksums) {
  server_.put("a", "123456789");
  std::string sum = wire::to_base64(s3::bytes_of(0xE3069283U));  // CRC-32C's check value
  std::string name = "x-amz-checksum-crc32c";
  server_.trouble([&](const Request& request, Reply& reply) {
    if (!request.header("x-amz-checksum-mode").empty()) reply.headers[name] = sum;
  });
  EXPECT_TRUE(s3::read(client_, at("a")));
  sum = wire::to_base64(s3::bytes_of(0xE3069284U));
  EXPECT_EQ(s3::read(client_, at("a")).error().kind, Kind::Corrupt);
  name = "x-amz-checksum-sha256";
  sum = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=";  // openssl dgst -sha256 of 123456789
  const auto right = s3::read(client_, at("a"));
  EXPECT_TRUE(right) << right.error().text();
  sum[0] = 'G';
  EXPECT_EQ(s3::read(client_, at("a")).error().kind, Kind::Corrupt);
}

TEST_F(Read, WaitsAndAsksForLessWhenS3SaysSlowDown) {
  server_.put("a", "hello");
  std::atomic<int> left = 3;
  server_.trouble([&](const Request&, Reply& reply) {
    if (left-- > 0) reply = refusal(503, "SlowDown");
  });
  const auto width = client_.width();
  const auto content = s3::read(client_, at("a"));
  ASSERT_TRUE(content) << content.error().text();
  EXPECT_EQ(content->bytes, "hello");
  EXPECT_LT(client_.width(), width);
}

TEST_F(Read, GivesUpWhenPatienceRunsOut) {
  server_.trouble([](const Request&, Reply& reply) { reply = refusal(500, "InternalError"); });
  const auto content = s3::read(client_, at("a"));
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().kind, Kind::Unavailable);
  EXPECT_GT(server_.requests().size(), 2U);
}

TEST_F(Read, FollowsABucketIntoItsRegion) {
  server_.put("a", "hello");
  server_.trouble([](const Request& request, Reply& reply) {
    if (request.header("authorization").find("/eu-west-1/s3/") == std::string::npos) {
      reply = refusal(301, "PermanentRedirect");
      reply.headers["x-amz-bucket-region"] = "eu-west-1";
    }
  });
  const auto content = s3::read(client_, at("a"));
  ASSERT_TRUE(content) << content.error().text();
  EXPECT_EQ(content->bytes, "hello");
  EXPECT_EQ(server_.requests().size(), 2U);
  EXPECT_TRUE(s3::head(client_, at("a")));
  EXPECT_EQ(server_.requests().size(), 3U);  // it is remembered
}

TEST_F(Read, DoesNotFollowForEverNorToForeignHosts) {
  server_.trouble([](const Request&, Reply& reply) {
    reply = refusal(307, "TemporaryRedirect", "<Endpoint>evil.example.com</Endpoint>");
  });
  const auto content = s3::read(client_, at("a"));
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().kind, Kind::Refused);
  EXPECT_EQ(server_.requests().size(), 1U);
}

TEST_F(Read, CorrectsAWrongClockByS3sDate) {
  server_.put("a", "hello");
  auto wrong = settings();
  wrong.clock = [] { return wire::parse_rfc3339("2001-01-01T00:00:00Z").value(); };
  server_.trouble([](const Request& request, Reply& reply) {
    if (request.header("x-amz-date").starts_with("2001")) {
      reply = refusal(403, "RequestTimeTooSkewed");
      reply.headers["Date"] = "Sat, 21 Nov 2026 10:15:30 GMT";
    }
  });
  s3::Client client(wrong);
  EXPECT_TRUE(s3::read(client, at("a")));
  EXPECT_EQ(server_.requests().back().header("x-amz-date"), "20261121T101530Z");
}

// The answer to HEAD says nothing but its status; a GET's may have no code, either.
TEST_F(Read, LooksAtTheDateBeforeAPermissionIsBlamed) {
  server_.put("a", "hello");
  auto wrong = settings();
  wrong.clock = [] { return wire::parse_rfc3339("2001-01-01T00:00:00Z").value(); };
  bool denied = false;
  server_.trouble([&denied](const Request& request, Reply& reply) {
    if (request.header("x-amz-date").starts_with("2001") || denied) {
      reply = {.status = 403};
      reply.headers["Date"] = "Sat, 21 Nov 2026 10:15:30 GMT";
    }
  });
  s3::Client client(wrong);
  int good = 0;
  // Both are on their way when the first refusal comes.
  for (int i = 0; i < 2; ++i)
    client.start({.method = "HEAD", .bucket = "bucket", .key = "a"},
                 [&good](const auto& answer) { good += answer.has_value() ? 1 : 0; });
  while (client.under_way() > 0) client.turn(std::chrono::seconds(1));
  EXPECT_EQ(good, 2);
  denied = true;
  EXPECT_EQ(client.perform({.method = "HEAD", .bucket = "bucket", .key = "a"}).error().kind,
            Kind::Permission);
}

TEST_F(Read, AsksAHeadAgainWithNewKeys) {
  server_.put("a", "hello");
  const std::string file = testing::TempDir() + "spotter-keys-" + std::to_string(getpid());
  const auto keys = [&file](const std::string& id) {
    std::ofstream(file) << "[default]\naws_access_key_id=" << id << "\naws_secret_access_key=s\n";
  };
  keys("OLD");
  auto of_file = settings();
  of_file.environment = act::Environment({{"AWS_ENDPOINT_URL_S3", server_.url()},
                                          {"AWS_SHARED_CREDENTIALS_FILE", file},
                                          {"AWS_REGION", "us-west-2"},
                                          {"HOME", "/nonexistent"}});
  s3::Client client(of_file);
  EXPECT_TRUE(client.perform({.method = "HEAD", .bucket = "bucket", .key = "a"}));
  keys("NEW");
  server_.trouble([](const Request& request, Reply& reply) {
    if (request.header("authorization").find("OLD/") == std::string::npos) return;
    reply = {.status = 400};
    reply.headers["x-amz-bucket-region"] = "us-west-2";
  });
  EXPECT_TRUE(client.perform({.method = "HEAD", .bucket = "bucket", .key = "a"}));
  std::filesystem::remove(file);
}

TEST_F(Read, SignsNothingWhenItIsAnonymousAndNeedsNoKeysThen) {
  server_.put("a", "hello");
  s3::Settings nobody{.environment = act::Environment({{"AWS_ENDPOINT_URL_S3", server_.url()},
                                                       {"AWS_EC2_METADATA_DISABLED", "true"},
                                                       {"HOME", "/nonexistent"}})};
  s3::Client signing(nobody);
  EXPECT_EQ(s3::read(signing, at("a")).error().kind, Kind::NoCredentials);
  nobody.anonymous = true;
  s3::Client anonymous(nobody);
  EXPECT_TRUE(s3::read(anonymous, at("a")));
  EXPECT_EQ(server_.requests().back().header("authorization"), "");
}

// The client has no keys but the instance's role's, of a metadata service on the same server.
class OnAnInstance : public S3 {
 protected:
  s3::Settings settings_of_role() const {
    return {.environment = act::Environment({{"AWS_ENDPOINT_URL_S3", server_.url()},
                                             {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server_.url()},
                                             {"HOME", "/nonexistent"}})};
  }
  static void answer_as_metadata(const Request& request, Reply& reply) {
    const std::string role = "/latest/meta-data/iam/security-credentials/";
    if (request.path == "/latest/api/token") reply = {.body = "a-token"};
    if (!request.path.starts_with(role) || request.header("x-aws-ec2-metadata-token") != "a-token")
      return;
    reply = {.body =
                 request.path == role ? "ours\n" : R"({"Code": "Success", "AccessKeyId": "ROLES",
                        "SecretAccessKey": "s", "Token": "of the role",
                        "Expiration": "2099-01-01T00:00:00Z"})"};
  }
};

TEST_F(OnAnInstance, SignsWithTheKeysOfTheRole) {
  server_.put("a", "hello");
  server_.trouble(answer_as_metadata);
  s3::Client client(settings_of_role());
  ASSERT_TRUE(s3::read(client, at("a")));
  const Request last = server_.requests().back();
  EXPECT_NE(last.header("authorization").find("Credential=ROLES/"), std::string::npos);
  EXPECT_EQ(last.header("x-amz-security-token"), "of the role");
  const auto before = server_.requests().size();
  EXPECT_TRUE(s3::read(client, at("a")));
  EXPECT_EQ(server_.requests().size(), before + 1) << "they are kept";
}

TEST_F(OnAnInstance, WithoutARoleHasNoKeys) {
  s3::Client client(settings_of_role());
  EXPECT_EQ(s3::read(client, at("a")).error().kind, Kind::NoCredentials);
}

TEST_F(OnAnInstance, WaitsForNothingButInATurnThatMayWait) {
  const auto asked = std::make_shared<std::atomic<bool>>(false);
  const auto over = std::make_shared<std::latch>(1);
  server_.trouble([asked, over](const Request&, Reply&) {
    *asked = true;
    over->wait();
  });
  s3::Client client(settings_of_role());
  bool ended = false;
  const auto call =
      client.start({.bucket = "bucket", .key = "a"}, [&](const auto&) { ended = true; });
  while (!*asked) client.turn(std::chrono::milliseconds(0));
  client.turn(std::chrono::milliseconds(0));
  EXPECT_FALSE(ended) << "the metadata service has not answered";
  client.drop(call);
  client.turn(std::chrono::milliseconds(0));
  over->count_down();
}

TEST_F(Read, ListsBeyondAPageWhateverTheKeysAre) {
  server_.page_size(10);
  for (int i = 0; i < 95; ++i) {
    server_.put("p/" + std::to_string(100 + i) + " +\xC3\xBC", std::string(i, 'x'));
  }
  server_.put("q", "");
  const auto all = s3::list(client_, at("p/"));
  ASSERT_TRUE(all) << all.error().text();
  ASSERT_EQ(all->objects.size(), 95U);
  EXPECT_EQ(all->objects[94].key, "p/194 +\xC3\xBC");
  EXPECT_EQ(all->objects[94].size, 94U);
  EXPECT_EQ(all->objects[94].etag, server_.find("p/194 +\xC3\xBC")->etag);
}

// A proxy or another S3 may answer so: the client would ask, and remember, for ever.
TEST_F(Read, AListingWhoseTokenComesAgainIsAnError) {
  server_.page_size(2);
  for (const char* key : {"p/a", "p/b", "p/c", "p/d", "p/e"}) server_.put(key, "");
  std::string first;  // page's token
  server_.trouble([&first](const Request& request, Reply& reply) {
    if (!request.query.contains("list-type")) return;
    const std::string mark = "<NextContinuationToken>";
    const auto begin = reply.body.find(mark);
    if (begin == std::string::npos) return;
    const auto from = begin + mark.size();
    const auto token = reply.body.substr(from, reply.body.find('<', from) - from);
    if (first.empty()) first = token;
    reply.body.replace(from, token.size(), first);
  });
  const auto all = s3::list(client_, at("p/"));
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().kind, Kind::Refused);
  EXPECT_NE(all.error().text().find("came a second time"), std::string::npos) << all.error().text();
  EXPECT_LE(server_.requests().size(), 4U);
}

TEST_F(Read, DropsACallForGood) {
  server_.put("a", noise(1U << 20));
  std::string into(1U << 20, '\0');
  bool called = false;
  s3::Request request{.bucket = "bucket", .key = "a"};
  request.into = into;
  const auto call = client_.start(request, [&](const auto&) { called = true; });
  client_.turn(std::chrono::milliseconds(1));
  client_.drop(call);
  EXPECT_EQ(client_.under_way(), 0U);
  EXPECT_TRUE(s3::head(client_, at("a")));
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace spotter::s3_test
