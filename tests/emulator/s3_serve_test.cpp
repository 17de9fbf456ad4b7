// S3 over a socket, byte by byte: what a client library would hide. Objects and documents are the
// business of clients/test_s3_*.py.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "tests/emulator/http.hpp"
#include "tests/emulator/serve_fixture.hpp"
#include "tests/emulator/sigv4.hpp"
#include "tests/world/s3/digest.hpp"

namespace spotter::emulator {
namespace {

struct Reply {
  std::string head;  // status line and headers, in lower case but for the values
  std::string body;

  int status() const { return head.size() > 12 ? std::stoi(head.substr(9, 3)) : 0; }
  std::string header(const std::string& name) const {
    const auto at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return {};
    const auto from = at + name.size() + 4;
    return head.substr(from, head.find("\r\n", from) - from);
  }
};

// One connection.
class Raw {
 public:
  explicit Raw(const Served& served) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(
        static_cast<std::uint16_t>(std::stoi(served.api().substr(served.api().rfind(':') + 1))));
    const timeval limit{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Raw() { ::close(socket_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void send(const std::string& bytes) {
    ASSERT_TRUE(connected_);
    ASSERT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // The next answer; `has_body`: false for one to HEAD.
  Reply receive(bool has_body = true) {
    Reply reply;
    while (unread_.find("\r\n\r\n") == std::string::npos && more()) continue;
    const auto end = unread_.find("\r\n\r\n");
    if (end == std::string::npos) return reply;
    reply.head = unread_.substr(0, end + 2);
    unread_.erase(0, end + 4);
    const std::string length = reply.header("Content-Length");
    const std::size_t size = has_body && !length.empty() ? std::stoul(length) : 0;
    while (unread_.size() < size && more()) continue;
    reply.body = unread_.substr(0, size);
    unread_.erase(0, size);
    return reply;
  }
  bool ended() { return unread_.empty() && !more(); }

 private:
  bool more() {
    char bytes[4096];
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got > 0) unread_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }
  int socket_;
  bool connected_ = false;
  std::string unread_;
};

Authorization scope_of(const std::string& timestamp) {
  return {"AKIAEMULATOR00000000", timestamp.substr(0, 8), "us-west-2", "s3", {}, ""};
}

// A request's head, signed; `authorization` tells the signature, for those of the chunks.
std::string signed_head(HttpRequest request, const std::string& payload_hash,
                        const std::string& secret, Authorization* authorization = nullptr) {
  char timestamp[17];
  const std::time_t now = std::time(nullptr);
  std::strftime(timestamp, sizeof timestamp, "%Y%m%dT%H%M%SZ", std::gmtime(&now));
  request.headers.insert(
      request.headers.end(),
      {{"host", "localhost"}, {"x-amz-content-sha256", payload_hash}, {"x-amz-date", timestamp}});
  Authorization made = scope_of(timestamp);
  for (const auto& [name, value] : request.headers)
    if (name == "host" || name.starts_with("x-amz-")) made.signed_headers.push_back(name);
  std::sort(made.signed_headers.begin(), made.signed_headers.end());
  std::string names;
  for (const auto& name : made.signed_headers) names += (names.empty() ? "" : ";") + name;
  const std::string canonical = canonical_request(
      request, made.signed_headers,
      {std::string(request.path()), canonical_query(request.query()), payload_hash});
  made.signature =
      signature(signing_key(secret, made), std::string("AWS4-HMAC-SHA256\n") + timestamp + "\n" +
                                               made.scope() + "\n" + sha256_text(canonical));
  std::string head = request.method + " " + request.target + " HTTP/1.1\r\n";
  for (const auto& [name, value] : request.headers) head += name + ": " + value + "\r\n";
  if (authorization != nullptr) *authorization = made;
  return head + "Authorization: AWS4-HMAC-SHA256 Credential=" + made.access_key + "/" +
         made.scope() + ", SignedHeaders=" + names + ", Signature=" + made.signature + "\r\n\r\n";
}

constexpr const char* secret = "emulator-secret";

std::string put_head(const std::string& key, Headers headers, const std::string& payload_hash,
                     const std::string& with = secret, Authorization* authorization = nullptr) {
  return signed_head({"PUT", "/data/" + key, std::move(headers), ""}, payload_hash, with,
                     authorization);
}

std::string get(const std::string& key, const std::string& more = "") {
  return "GET /data/" + key + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

class S3Serve : public testing::Test {
 protected:
  S3Serve() : served_("user", {"--fixed-keys", "--even-as-root"}) {
    std::filesystem::create_directory(served_.folder() / "s3" / "data");
    served_.control("fault", {{"name", "s3-public"}, {"arguments", {{"bucket", "data"}}}});
  }
  void drop(const std::string& name, const std::string& content) {
    std::ofstream(served_.folder() / "s3" / "data" / name) << content;
  }
  std::string stored(const std::string& name) {
    return read_file(served_.folder() / "s3" / "data" / name);
  }

  Served served_;
};

TEST_F(S3Serve, ManyAnswersOnOneConnectionAlsoWhenTheQuestionsComeTogether) {
  drop("a", "first");
  drop("b", std::string(300'000, 'x') + "end");
  Raw raw(served_);
  raw.send(get("a") + get("b", "Range: bytes=300000-\r\n") + get("none") + get("b") + get("a"));
  const Reply first = raw.receive();
  EXPECT_EQ(first.body, "first");
  EXPECT_EQ(first.header("Accept-Ranges"), "bytes");
  EXPECT_EQ(first.header("Content-Type"), "binary/octet-stream");
  EXPECT_FALSE(first.header("x-amz-request-id").empty());
  EXPECT_FALSE(first.header("Date").empty());
  const Reply part = raw.receive();
  EXPECT_EQ(part.status(), 206);
  EXPECT_EQ(part.body, "end");
  EXPECT_EQ(part.header("Content-Range"), "bytes 300000-300002/300003");
  EXPECT_EQ(element(raw.receive().body, "Code"), "NoSuchKey");
  EXPECT_EQ(raw.receive().body.size(), 300'003U);
  EXPECT_EQ(raw.receive().body, "first");
}

TEST_F(S3Serve, AnswersWithoutABody) {
  drop("a", "12345");
  Raw raw(served_);
  raw.send("HEAD /data/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Reply head = raw.receive(false);
  EXPECT_EQ(head.header("Content-Length"), "5");
  raw.send("HEAD /data/none HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(raw.receive(false).status(), 404);
  raw.send(get("a", "If-None-Match: " + head.header("ETag") + "\r\n"));
  const Reply unchanged = raw.receive();
  EXPECT_EQ(unchanged.status(), 304);
  EXPECT_EQ(unchanged.header("Content-Length"), "");
  EXPECT_EQ(unchanged.header("ETag"), head.header("ETag"));
  raw.send(get("a"));
  EXPECT_EQ(raw.receive().body, "12345");
}

TEST_F(S3Serve, AnswersOfAnUnchangedObjectHaveNoChecksum) {
  Raw raw(served_);
  const Headers headers = {
      {"content-length", "5"},
      {"x-amz-checksum-sha256", "WZRHGrsBESr8wYFZ9sx0tPURuZgG2lmzyvWpwXPKz8U="}};
  raw.send(put_head("a", headers, "UNSIGNED-PAYLOAD") + "12345");
  ASSERT_EQ(raw.receive().status(), 200);
  const std::string mode = "x-amz-checksum-mode: ENABLED\r\n";
  raw.send(get("a", mode));
  const Reply whole = raw.receive();
  EXPECT_NE(whole.header("x-amz-checksum-sha256"), "");
  raw.send(get("a", mode + "If-None-Match: " + whole.header("ETag") + "\r\n"));
  const Reply unchanged = raw.receive();
  EXPECT_EQ(unchanged.status(), 304);
  EXPECT_EQ(unchanged.header("x-amz-checksum-sha256"), "");
}

TEST_F(S3Serve, ABodyIsAskedForOnlyWhenItIsWanted) {
  const Headers headers = {{"content-length", "5"}, {"expect", "100-continue"}};
  Raw raw(served_);
  raw.send(put_head("a", headers, "UNSIGNED-PAYLOAD"));
  EXPECT_EQ(raw.receive().status(), 100);
  raw.send("hello");
  EXPECT_EQ(raw.receive().status(), 200);
  EXPECT_EQ(stored("a"), "hello");
  raw.send(put_head("a", headers, "UNSIGNED-PAYLOAD", "guess"));
  EXPECT_EQ(element(raw.receive().body, "Code"), "SignatureDoesNotMatch");
  EXPECT_TRUE(raw.ended());
}

TEST_F(S3Serve, ARefusedBodyIsReadToItsEndAndTheConnectionGoesOn) {
  drop("a", "kept");
  Raw raw(served_);
  const std::string body(2'000'000, 'x');
  raw.send(put_head("a", {{"content-length", "2000000"}}, "UNSIGNED-PAYLOAD", "guess") + body);
  EXPECT_EQ(raw.receive().status(), 403);
  raw.send(put_head("a", {{"content-length", "2000000"}}, std::string(64, '0')) + body);
  EXPECT_EQ(element(raw.receive().body, "Code"), "XAmzContentSHA256Mismatch");
  raw.send(get("a"));
  EXPECT_EQ(raw.receive().body, "kept");
}

TEST_F(S3Serve, AnUploadSaysHowLongItIs) {
  Raw raw(served_);
  raw.send(put_head("a", {}, "UNSIGNED-PAYLOAD"));
  EXPECT_EQ(element(raw.receive().body, "Code"), "MissingContentLength");
  raw.send(put_head("a", {{"transfer-encoding", "chunked"}}, "UNSIGNED-PAYLOAD") +
           "5\r\nhello\r\n0\r\n\r\n");
  EXPECT_EQ(element(raw.receive().body, "Code"), "NotImplemented");
  raw.send(put_head("a", {{"content-length", "0"}}, "UNSIGNED-PAYLOAD"));
  EXPECT_EQ(raw.receive().status(), 200);
}

TEST_F(S3Serve, AnUploadThatBreaksOffLeavesNothing) {
  drop("a", "kept");
  const auto drafts = served_.folder() / "s3" / ".spotter" / "drafts";
  {
    Raw raw(served_);
    raw.send(put_head("a", {{"content-length", "100"}}, "UNSIGNED-PAYLOAD") + "half");
    EXPECT_TRUE(eventually([&] { return !std::filesystem::is_empty(drafts); }));
  }
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(drafts); }));
  EXPECT_EQ(stored("a"), "kept");
}

// The SDKs of 2025 (and botocore) upload so over TLS: the checksum comes behind the content.
TEST_F(S3Serve, ChunksWithAChecksumBehindThem) {
  const std::string kind = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
  const Headers headers = {{"content-encoding", "gzip,aws-chunked"},
                           {"transfer-encoding", "chunked"},
                           {"x-amz-decoded-content-length", "9"},
                           {"x-amz-sdk-checksum-algorithm", "CRC32C"},
                           {"x-amz-trailer", "x-amz-checksum-crc32c"}};
  const auto upload = [&](const std::string& checksum) {
    const std::string inner =
        "4\r\n1234\r\n5\r\n56789\r\n0\r\nx-amz-checksum-crc32c:" + checksum + "\r\n\r\n";
    char size[20];
    std::snprintf(size, sizeof size, "%zx", inner.size());
    return put_head("a", headers, kind) + size + "\r\n" + inner + "\r\n0\r\n\r\n";
  };
  Raw raw(served_);
  raw.send(upload("4waSgw=="));
  const Reply done = raw.receive();
  EXPECT_EQ(done.status(), 200) << done.body;
  EXPECT_EQ(done.header("x-amz-checksum-crc32c"), "4waSgw==");
  EXPECT_EQ(stored("a"), "123456789");
  raw.send(get("a", "x-amz-checksum-mode: ENABLED\r\n"));
  const Reply got = raw.receive();
  EXPECT_EQ(got.header("content-encoding"), "gzip");
  EXPECT_EQ(got.header("x-amz-checksum-crc32c"), "4waSgw==");
  raw.send(upload("AAAAAA=="));
  EXPECT_EQ(element(raw.receive().body, "Code"), "BadDigest");
  EXPECT_EQ(stored("a"), "123456789");
}

// One chunk and the last one; `content` is what is signed, `sent` what goes over the wire.
std::string signed_chunks(const std::string& content, const std::string& sent) {
  constexpr std::size_t frame = 1 + 17 + 64 + 2;  // a digit, ;chunk-signature=, the signature
  const Headers headers = {{"content-encoding", "aws-chunked"},
                           {"content-length", std::to_string(2 * frame + sent.size() + 4)},
                           {"x-amz-decoded-content-length", std::to_string(sent.size())}};
  Authorization authorization;
  const std::string head =
      put_head("a", headers, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", secret, &authorization);
  const std::string timestamp = head.substr(head.find("x-amz-date: ") + 12, 16);
  const auto sign = [&](const std::string& previous, const std::string& bytes) {
    return signature(signing_key(secret, authorization),
                     "AWS4-HMAC-SHA256-PAYLOAD\n" + timestamp + "\n" + authorization.scope() +
                         "\n" + previous + "\n" + sha256_text("") + "\n" + sha256_text(bytes));
  };
  const std::string first = sign(authorization.signature, content);
  return head + std::to_string(sent.size()) + ";chunk-signature=" + first + "\r\n" + sent +
         "\r\n0;chunk-signature=" + sign(first, "") + "\r\n\r\n";
}

TEST_F(S3Serve, SignedChunks) {
  Raw raw(served_);
  raw.send(signed_chunks("12345", "12345"));
  EXPECT_EQ(raw.receive().status(), 200);
  EXPECT_EQ(stored("a"), "12345");
  raw.send(signed_chunks("12345", "12346"));
  EXPECT_EQ(element(raw.receive().body, "Code"), "SignatureDoesNotMatch");
  EXPECT_EQ(stored("a"), "12345");
}

TEST_F(S3Serve, WhatWasUploadedSurvivesARestart) {
  Raw raw(served_);
  raw.send(
      put_head("a", {{"content-length", "5"}, {"x-amz-meta-job", "mnist"}}, "UNSIGNED-PAYLOAD") +
      "hello");
  const std::string etag = raw.receive().header("ETag");
  raw.send(put_head("..", {{"content-length", "3"}}, "UNSIGNED-PAYLOAD") + "odd");
  EXPECT_EQ(raw.receive().status(), 200);
  raw.send(signed_head({"POST", "/data/big?uploads=", {{"content-length", "0"}}, ""},
                       sha256_text(""), secret));
  const std::string upload = element(raw.receive().body, "UploadId");
  ASSERT_EQ(upload.size(), 64U);
  served_.signal(SIGTERM);
  served_.wait();
  ASSERT_NE(served_.start(), "");
  Raw again(served_);
  again.send(get("a"));
  const Reply got = again.receive();
  EXPECT_EQ(got.body, "hello");
  EXPECT_EQ(got.header("ETag"), etag);
  EXPECT_EQ(got.header("x-amz-meta-job"), "mnist");
  again.send(get(".."));
  EXPECT_EQ(again.receive().body, "odd");
  again.send(signed_head({"GET", "/data/big?uploadId=" + upload, {}, ""}, sha256_text(""), secret));
  EXPECT_EQ(again.receive().status(), 200);
}

class S3InInstances : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, S3InInstances, testing::Values("root", "user", "isolated"),
                         [](const auto& it) { return std::string(it.param); });

// With the credentials of its role, by way of its own metadata: Debian's `aws`.
TEST_P(S3InInstances, AnInstanceReadsAndWritesWithItsRole) {
  if (std::string(GetParam()) == "root" && ::geteuid() != 0) GTEST_SKIP() << "needs root";
  Served served(GetParam());
  const auto bucket = served.folder() / "s3" / "data";
  std::filesystem::create_directory(bucket);
  std::ofstream(bucket / "in") << "from S3";
  served.own();
  const auto id = served.run_instance(
      "#!/bin/sh\nexport AWS_DEFAULT_REGION=us-west-2\n"
      // Debian's botocore wants the slash.
      "imds=$AWS_EC2_METADATA_SERVICE_ENDPOINT\n"
      "[ -z \"$imds\" ] || export AWS_EC2_METADATA_SERVICE_ENDPOINT=\"$imds/\"\n"
      "s3() { aws --endpoint-url \"$AWS_ENDPOINT_URL\" s3 \"$@\"; }\n"
      "s3 cp s3://data/in - | s3 cp - s3://data/out\n");
  EXPECT_TRUE(eventually([&] { return read_file(bucket / "out") == "from S3"; }))
      << read_file(served.instance(id) / "console.log");
}

}  // namespace
}  // namespace spotter::emulator
