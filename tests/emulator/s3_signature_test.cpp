// AWS's own worked examples of signed requests to S3:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html,
// sigv4-query-string-auth.html and sigv4-streaming.html
#include <gtest/gtest.h>

#include "tests/emulator/s3/signature.hpp"

namespace spotter::emulator::s3 {
namespace {

constexpr const char* empty_hash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

SignatureRules rules(std::chrono::seconds later = std::chrono::seconds{60}) {
  SignatureRules made;
  made.now = {std::chrono::sys_days{std::chrono::year{2013} / 5 / 24} + later};
  made.key = [](std::string_view key) -> std::optional<SigningKey> {
    if (key != "AKIAIOSFODNN7EXAMPLE") return std::nullopt;
    return SigningKey{"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", "user"};
  };
  return made;
}

HttpRequest signed_request(const std::string& method, const std::string& target, Headers headers,
                           const std::string& signature, const std::string& host) {
  std::string names;
  headers.emplace_back("host", host);
  headers.emplace_back("x-amz-date", "20130524T000000Z");
  std::sort(headers.begin(), headers.end());
  for (const auto& [name, value] : headers) names += (names.empty() ? "" : ";") + name;
  headers.emplace_back("authorization",
                       "AWS4-HMAC-SHA256 "
                       "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                       "SignedHeaders=" +
                           names + ",Signature=" + signature);
  return {method, target, headers, ""};
}

std::string outcome(const HttpRequest& request, const SignatureRules& with = rules()) {
  const auto signer = verify(request, with);
  return signer ? signer->caller : signer.error().error.code;
}

TEST(S3Signature, AwsExamplesOfTheHeader) {
  constexpr const char* host = "examplebucket.s3.amazonaws.com";
  const Headers empty = {{"x-amz-content-sha256", empty_hash}};
  auto ranged = signed_request(
      "GET", "/test.txt", {{"x-amz-content-sha256", empty_hash}, {"range", "bytes=0-9"}},
      "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41", host);
  EXPECT_EQ(outcome(ranged), "user");
  EXPECT_EQ(outcome(signed_request(
                "GET", "/?lifecycle", empty,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", host)),
            "user");
  EXPECT_EQ(outcome(signed_request(
                "GET", "/?max-keys=2&prefix=J", empty,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", host)),
            "user");
  EXPECT_EQ(outcome(signed_request(
                "PUT", "/test%24file.text",
                {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                 {"x-amz-content-sha256",
                  "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
                 {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd", host)),
            "user");
  EXPECT_EQ(outcome(ranged, rules(std::chrono::seconds{901})), "RequestTimeTooSkewed");
  auto expired = rules();
  expired.key = [](std::string_view key) -> std::optional<SigningKey> {
    auto found = rules().key(key);
    found->expired = true;
    return found;
  };
  EXPECT_EQ(outcome(ranged, expired), "ExpiredToken");
  ranged.target = "/other.txt";
  EXPECT_EQ(outcome(ranged), "SignatureDoesNotMatch");
  ranged.headers.emplace_back("x-amz-acl", "public-read");
  EXPECT_EQ(outcome(ranged), "AccessDenied");  // not among what was signed
}

TEST(S3Signature, AwsExampleOfAPresignedUrl) {
  const std::string query =
      "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524"
      "%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"
      "&X-Amz-SignedHeaders=host&X-Amz-Signature="
      "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
  HttpRequest request{"GET", query, {{"host", "examplebucket.s3.amazonaws.com"}}, ""};
  EXPECT_EQ(outcome(request, rules(std::chrono::hours{23})), "user");
  EXPECT_EQ(outcome(request, rules(std::chrono::hours{25})), "AccessDenied");
  request.target += "&response-content-type=text/html";
  EXPECT_EQ(outcome(request), "SignatureDoesNotMatch");
  request.target = query;
  request.target.replace(query.find("86400"), 5, "604801");
  EXPECT_EQ(outcome(request), "AuthorizationQueryParametersError");
  request.target = query.substr(0, query.find("&X-Amz-Signature"));
  EXPECT_EQ(outcome(request), "AuthorizationQueryParametersError");
}

HttpRequest chunked_request() {
  return signed_request("PUT", "/examplebucket/chunkObject.txt",
                        {{"content-encoding", "aws-chunked"},
                         {"content-length", "66824"},
                         {"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"},
                         {"x-amz-decoded-content-length", "66560"},
                         {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
                        "s3.amazonaws.com");
}

std::string chunk(std::size_t size, const std::string& signature) {
  char length[20];
  std::snprintf(length, sizeof length, "%zx", size);
  return std::string(length) + ";chunk-signature=" + signature + "\r\n" + std::string(size, 'a') +
         "\r\n";
}

TEST(S3Signature, AwsExampleOfABodyInSignedChunks) {
  const auto signer = verify(chunked_request(), rules());
  ASSERT_TRUE(signer) << signer.error().error.message;
  const std::string body =
      chunk(65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648") +
      chunk(1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497") +
      chunk(0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
  ASSERT_EQ(body.size(), 66824U);
  const auto decode = [&](const std::string& bytes) {
    world::s3::ChunkDecoder decoder([](std::string_view) {}, signer->chunks, signer->seed);
    decoder.take(bytes);
    const auto error = decoder.finish();
    return error ? error->code : std::to_string(decoder.size());
  };
  EXPECT_EQ(decode(body), "66560");
  std::string changed = body;
  changed[1000] = 'b';
  EXPECT_EQ(decode(changed), "SignatureDoesNotMatch");
  EXPECT_EQ(decode(body.substr(0, 65000)), "IncompleteBody");
}

}  // namespace
}  // namespace spotter::emulator::s3
