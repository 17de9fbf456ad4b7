// S3's rules without a socket or a file.
#include <gtest/gtest.h>

#include <set>

#include "tests/world/random.hpp"
#include "tests/world/s3/chunks.hpp"
#include "tests/world/s3/conditions.hpp"
#include "tests/world/s3/documents.hpp"
#include "tests/world/s3/faults.hpp"
#include "tests/world/s3/keys.hpp"
#include "tests/world/s3/multipart.hpp"

namespace spotter::world::s3 {
namespace {

Expected<Request> asked(const std::string& method, const std::string& path, Fields query = {},
                        Fields headers = {}) {
  return classify(method, path, std::move(query), std::move(headers));
}

std::string operation(const std::string& method, const std::string& path, Fields query = {},
                      Fields headers = {}) {
  const auto request = asked(method, path, std::move(query), std::move(headers));
  return request ? std::string(name(request->operation)) : request.error().code;
}

TEST(S3Request, TheOperationIsInMethodPathAndQuery) {
  EXPECT_EQ(operation("GET", "/"), "ListBuckets");
  EXPECT_EQ(operation("GET", "/bucket"), "ListObjects");
  EXPECT_EQ(operation("GET", "/bucket/", {{"list-type", "2"}}), "ListObjectsV2");
  EXPECT_EQ(operation("GET", "/bucket/k"), "GetObject");
  EXPECT_EQ(operation("PUT", "/bucket/k"), "PutObject");
  EXPECT_EQ(operation("PUT", "/bucket/k", {{"uploadId", "u"}, {"partNumber", "1"}}), "UploadPart");
  EXPECT_EQ(operation("PUT", "/bucket/k", {}, {{"x-amz-copy-source", "a/b"}}), "CopyObject");
  EXPECT_EQ(operation("PUT", "/bucket/k", {{"uploadId", "u"}}, {{"x-amz-copy-source", "a/b"}}),
            "UploadPartCopy");
  EXPECT_EQ(operation("POST", "/bucket/k", {{"uploads", ""}}), "CreateMultipartUpload");
  EXPECT_EQ(operation("POST", "/bucket", {{"delete", ""}}), "DeleteObjects");
  EXPECT_EQ(operation("GET", "/bucket/k", {{"tagging", ""}}), "NotImplemented");
  EXPECT_EQ(operation("PATCH", "/bucket/k"), "MethodNotAllowed");
  EXPECT_EQ(operation("GET", "/NoBucket/k"), "InvalidBucketName");
  EXPECT_EQ(operation("GET", "/bucket/" + std::string(1025, 'k')), "KeyTooLongError");
  EXPECT_EQ(operation("GET", "/bucket/\xff"), "InvalidURI");
}

TEST(S3Request, TheHostMayNameTheBucket) {
  EXPECT_EQ(bucket_of_host("127.0.0.1:4566"), "");
  EXPECT_EQ(bucket_of_host("localhost:4566"), "");
  EXPECT_EQ(bucket_of_host("data.localhost:4566"), "data");
  EXPECT_EQ(bucket_of_host("my.data.s3.us-west-2.localhost"), "my.data");
  EXPECT_EQ(bucket_of_host("s3.us-west-2.amazonaws.com"), "");
  EXPECT_EQ(bucket_of_host("data.s3.amazonaws.com"), "data");
  const auto request = asked("GET", "/a/b", {}, {{"host", "data.localhost:4566"}});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->bucket, "data");
  EXPECT_EQ(request->key, "a/b");
  EXPECT_EQ(asked("GET", "//k", {}, {{"host", "data.localhost"}})->key, "/k");
}

TEST(S3Request, OnlyUtf8IsAKey) {
  for (const char* good : {"", "a", "\u00fc", "\u20ac", "\U0001f600", "\uffff"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

TEST(S3Request, ValuesThatAreNone) {
  constexpr const char* invalid = "InvalidRequest";
  const Fields of_crc = {{"x-amz-checksum-crc32", "y/Q5Jg=="}};
  const auto put = [&](Fields headers) { return operation("PUT", "/bucket/k", {}, headers); };
  EXPECT_EQ(put(of_crc), "PutObject");
  EXPECT_EQ(put({{"x-amz-checksum-crc32", "banana"}}), invalid);
  EXPECT_EQ(put({{"x-amz-checksum-sha256", "y/Q5Jg=="}}), invalid) << "of another length";
  EXPECT_EQ(put({{"x-amz-sdk-checksum-algorithm", "CRC32"}}), invalid) << "without a value";
  EXPECT_EQ(put({{"x-amz-sdk-checksum-algorithm", "SHA1"}, *of_crc.begin()}), invalid);
  EXPECT_EQ(put({{"x-amz-trailer", "x-amz-checksum-crc32"}, *of_crc.begin()}), invalid) << "two";
  EXPECT_EQ(put({{"x-amz-trailer", "expires"}}), invalid);
  EXPECT_EQ(put({{"x-amz-expected-bucket-owner", "banana"}}), "InvalidBucketOwnerAWSAccountID");
  EXPECT_EQ(operation("GET", "/bucket", {{"encoding-type", "banana"}}), "InvalidArgument");
  EXPECT_EQ(operation("POST", "/bucket/k", {{"uploadId", "u"}},
                      {{"x-amz-checksum-sha256", "y/Q5Jg==-2"}}),
            "CompleteMultipartUpload");
}

TEST(S3Keys, OnlyAWayBelowTheFolderIsAPath) {
  const auto path = path_of("a/b c/d");
  ASSERT_TRUE(path);
  EXPECT_EQ(*path, (std::vector<std::string>{"a", "b c", "d"}));
  for (const std::string key : {"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "../a"})
    EXPECT_FALSE(path_of(key)) << key;
  EXPECT_FALSE(path_of(std::string("a\0b", 3)));
  EXPECT_FALSE(path_of(std::string(256, 'a')));
  EXPECT_TRUE(path_of("..."));
}

Request with(Fields headers) { return {Operation::GetObject, "b", "k", {}, std::move(headers)}; }

TEST(S3Conditions, ReadsFollowTheOrderOfPrecedence) {
  const WallTime noon = std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} +
                        std::chrono::hours{12} + std::chrono::milliseconds{300};
  const std::string before = "Sat, 21 Nov 2026 11:00:00 GMT",
                    same = "Sat, 21 Nov 2026 12:00:00 GMT";
  const auto verdict = [&](Fields headers) {
    return reading(with(std::move(headers)), "tag", noon);
  };
  EXPECT_EQ(verdict({}), Condition::Holds);
  EXPECT_EQ(verdict({{"if-match", "\"tag\""}}), Condition::Holds);
  EXPECT_EQ(verdict({{"if-match", "\"a\", \"tag\""}}), Condition::Holds);
  EXPECT_EQ(verdict({{"if-match", "*"}}), Condition::Holds);
  EXPECT_EQ(verdict({{"if-match", "\"no\""}}), Condition::Failed);
  EXPECT_EQ(verdict({{"if-match", "\"tag\""}, {"if-unmodified-since", before}}), Condition::Holds);
  EXPECT_EQ(verdict({{"if-unmodified-since", before}}), Condition::Failed);
  EXPECT_EQ(verdict({{"if-unmodified-since", same}}), Condition::Holds);
  EXPECT_EQ(verdict({{"if-none-match", "\"tag\""}}), Condition::NotModified);
  EXPECT_EQ(verdict({{"if-none-match", "\"no\""}, {"if-modified-since", same}}), Condition::Holds);
  EXPECT_EQ(verdict({{"if-modified-since", same}}), Condition::NotModified);
  EXPECT_EQ(verdict({{"if-modified-since", before}}), Condition::Holds);
  EXPECT_EQ(verdict({{"if-modified-since", "yesterday"}}), Condition::Holds);
}

TEST(S3Conditions, Ranges) {
  const auto part = [](const char* header, std::uint64_t size) {
    const auto selection = select_range(header, size);
    if (std::holds_alternative<Unsatisfiable>(selection)) return std::string("416");
    const auto* const range = std::get_if<ByteRange>(&selection);
    return range ? std::to_string(range->first) + "+" + std::to_string(range->size)
                 : std::string("all");
  };
  EXPECT_EQ(part("bytes=0-0", 10), "0+1");
  EXPECT_EQ(part("bytes=3-", 10), "3+7");
  EXPECT_EQ(part("bytes=3-99", 10), "3+7");
  EXPECT_EQ(part("bytes=-3", 10), "7+3");
  EXPECT_EQ(part("bytes=-99", 10), "0+10");
  EXPECT_EQ(part("bytes=10-", 10), "416");
  EXPECT_EQ(part("bytes=-0", 10), "416");
  EXPECT_EQ(part("bytes=0-", 0), "416");
  EXPECT_EQ(part("bytes=18446744073709551615-", 10), "416");
  for (const char* ignored :
       {"", "bytes=", "bytes=-", "bytes=5-3", "bytes=0-1,3-4", "bytes=x-1", "bytes=1-x",
        "bytes=+1-2", "bytes=99999999999999999999-", "lines=1-2"})
    EXPECT_EQ(part(ignored, 10), "all") << ignored;
}

class Sorted : public Keys {
 public:
  explicit Sorted(std::set<std::string> keys) : keys_(std::move(keys)) {}
  std::optional<std::string> at_or_after(const std::string& key) override {
    const auto found = keys_.lower_bound(key);
    return found == keys_.end() ? std::nullopt : std::optional(*found);
  }
  const std::set<std::string>& all() const { return keys_; }

 private:
  std::set<std::string> keys_;
};

// The listing as S3's documentation defines it, done without any cleverness.
std::set<std::string> elements(const Sorted& keys, const ListingOf& what) {
  std::set<std::string> result;
  for (const std::string& key : keys.all()) {
    if (!key.starts_with(what.prefix)) continue;
    const auto cut =
        what.delimiter.empty() ? std::string::npos : key.find(what.delimiter, what.prefix.size());
    const std::string element =
        cut == std::string::npos ? key : key.substr(0, cut + what.delimiter.size());
    if (element > what.after || what.after.empty()) result.insert(element);
  }
  return result;
}

TEST(S3Listing, PagesTogetherAreTheWhole) {
  Random random(7);
  for (int round = 0; round < 500; ++round) {
    std::set<std::string> some;
    for (std::uint64_t i = random.below(30); i > 0; --i) {
      std::string key;
      for (std::uint64_t k = 1 + random.below(6); k > 0; --k)
        key += std::string_view("ab/.\xc3\xff")[random.below(6)];
      some.insert(key);
    }
    Sorted keys(some);
    ListingOf what{round % 3 == 0 ? "a" : "", round % 2 == 0 ? "/" : "", "", 1 + random.below(4)};
    if (round % 5 == 0) what.after = "a/b";
    const auto whole = elements(keys, what);
    std::set<std::string> seen;
    for (bool more = true; more;) {
      const Listing page = list(what, keys);
      EXPECT_LE(page.keys.size() + page.common_prefixes.size(), what.most);
      for (const auto& rows : {page.keys, page.common_prefixes})
        for (const auto& it : rows) EXPECT_TRUE(seen.insert(it).second) << it << " twice";
      more = !page.next.empty();
      if (more) what.after = parse_continuation_token(continuation_token(page.next)).value();
    }
    EXPECT_EQ(seen, whole);
  }
}

TEST(S3Listing, OnlyItsOwnTokensAreTaken) {
  for (const char* foreign : {"", "1-", "1-0", "1-zz", "2-61", "guess"})
    EXPECT_FALSE(parse_continuation_token(foreign)) << foreign;
}

// The check values of the CRC catalogue (reveng.sourceforge.io) and of RFC 1321, FIPS 180.
TEST(S3Digest, CheckValues) {
  const auto of = [](Algorithm algorithm) {
    const auto digest = make_digest(algorithm);
    digest->take("1234");
    digest->take("");
    digest->take("56789");
    return hexadecimal(digest->finish());
  };
  EXPECT_EQ(of(Algorithm::Crc32), "cbf43926");
  EXPECT_EQ(of(Algorithm::Crc32c), "e3069283");
  EXPECT_EQ(of(Algorithm::Crc64Nvme), "ae8b14860a799888");
  EXPECT_EQ(of(Algorithm::Md5), "25f9e794323b453885f5181f1b624d0b");
  EXPECT_EQ(of(Algorithm::Sha1), "f7c3bc1d808e04732adf679965ccc34ca7ae3441");
  EXPECT_EQ(digest(Algorithm::Crc32c, std::string(32, '\0')), "\x8a\x91\x36\xaa");  // RFC 3720
}

TEST(S3Digest, Base64ComesBack) {
  for (const std::string text : {"", "a", "ab", "abc", "abcd"})
    EXPECT_EQ(parse_base64(base64(text)), text);
  EXPECT_FALSE(parse_base64("abc"));
  EXPECT_FALSE(parse_base64("ab*="));
}

struct Decoded {
  std::string content;
  std::string error;
  Fields trailers;
};

// In pieces of this size, as a socket might give them.
Decoded decode(const std::string& bytes, std::size_t piece) {
  Decoded result;
  ChunkDecoder decoder([&](std::string_view part) { result.content += part; });
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    decoder.take(std::string_view(bytes).substr(at, piece));
  const auto error = decoder.finish();
  result.error = error ? error->code : "";
  result.trailers = decoder.trailers();
  return result;
}

TEST(S3Chunks, ContentAndTrailersHoweverTheyAreCut) {
  const std::string bytes =
      "5;chunk-signature=00\r\nhello\r\n7\r\n, world\r\n0\r\nX-Amz-Checksum-Crc32c: "
      "yZRlqg==\r\n\r\n";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    const auto decoded = decode(bytes, piece);
    EXPECT_EQ(decoded.error, "");
    EXPECT_EQ(decoded.content, "hello, world");
    EXPECT_EQ(decoded.trailers.at("x-amz-checksum-crc32c"), "yZRlqg==");
  }
}

TEST(S3Chunks, WhatIsNoChunkIsRefused) {
  EXPECT_EQ(decode("5\r\nhel", 100).error, "IncompleteBody");
  EXPECT_EQ(decode("5\r\nhello\r\n", 100).error, "IncompleteBody");
  EXPECT_EQ(decode("x\r\n", 100).error, "InvalidRequest");
  EXPECT_EQ(decode("\r\n", 100).error, "InvalidRequest");
  EXPECT_EQ(decode("2\r\nhello\r\n0\r\n\r\n", 100).error, "InvalidRequest");
  EXPECT_EQ(decode("ffffffffffffffffff\r\n", 100).error, "InvalidRequest");
  EXPECT_EQ(decode("0\r\nno colon\r\n\r\n", 100).error, "InvalidRequest");
  EXPECT_EQ(decode(std::string(10'000, '1'), 100).error, "InvalidRequest");
}

TEST(S3Multipart, AllPartsButTheLastAreLarge) {
  const std::string md5 = hexadecimal(digest(Algorithm::Md5, "x"));
  std::map<int, PartRow> uploaded;
  uploaded[1] = {1, least_part, md5};
  uploaded[2] = {2, least_part - 1, md5};
  uploaded[7] = {7, 1, md5};
  const auto code = [&](const std::vector<CompletedPart>& parts) {
    const auto completion = complete(parts, uploaded);
    return completion ? completion->etag.substr(32) : completion.error().code;
  };
  EXPECT_EQ(code({{1, md5}, {2, md5}}), "-2");
  EXPECT_EQ(code({{1, md5}, {7, md5}}), "-2");
  EXPECT_EQ(code({{1, md5}, {2, md5}, {7, md5}}), "EntityTooSmall");
  EXPECT_EQ(code({{2, md5}, {1, md5}}), "InvalidPartOrder");
  EXPECT_EQ(code({{1, md5}, {1, md5}}), "InvalidPartOrder");
  EXPECT_EQ(code({{3, md5}}), "InvalidPart");
  EXPECT_EQ(code({{1, "other"}}), "InvalidPart");
}

TEST(S3Multipart, PartsHaveTheChecksumOfTheirUpload) {
  using Given = std::optional<Algorithm>;
  const UploadChecksum none, sha{Algorithm::Sha256, false}, whole{Algorithm::Crc32, true};
  const auto fits = [](const UploadChecksum& upload, Given given) {
    return !refuse_part(upload, given);
  };
  EXPECT_TRUE(fits(none, {}) && fits(sha, Algorithm::Sha256) && fits(whole, {}));
  EXPECT_FALSE(fits(none, Algorithm::Crc32) || fits(sha, {}) || fits(whole, Algorithm::Sha1));
  EXPECT_EQ(refuse_part(sha, Algorithm::Crc32)->message,
            "Checksum Type mismatch occurred, expected checksum Type: sha256, actual checksum "
            "Type: crc32");
  const std::string sum = base64(digest(Algorithm::Sha256, "x"));
  const std::map<int, PartRow> uploaded = {{1, {1, 1, "e", {}, {{Algorithm::Sha256, sum}}}}};
  EXPECT_EQ(complete({{1, "e"}}, uploaded, sha).error().code, "InvalidRequest");
  EXPECT_TRUE(complete({{1, "e", {{Algorithm::Sha256, sum}}}}, uploaded, sha)
                  ->checksums.at(Algorithm::Sha256)
                  .ends_with("-1"));
  EXPECT_TRUE(complete({{1, "e"}}, uploaded)->checksums.empty()) << "S3 makes one of the whole";
}

TEST(S3Documents, RequestsAreReadOrRefused) {
  const auto parts = parse_completion(
      "<CompleteMultipartUpload xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
      "<Part><ETag>&quot;a&quot;</ETag><PartNumber>1</PartNumber><ChecksumCRC32C>x</ChecksumCRC32C>"
      "</Part><Part><PartNumber>2</PartNumber><ETag>b</ETag></Part></CompleteMultipartUpload>");
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->at(0).etag, "a");
  EXPECT_EQ(parts->at(0).checksums.at(Algorithm::Crc32c), "x");
  EXPECT_EQ(parts->at(1).number, 2);
  const auto deletion =
      parse_deletion("<Delete><Object><Key>a&lt;b</Key></Object><Quiet>true</Quiet></Delete>");
  ASSERT_TRUE(deletion);
  ASSERT_EQ(deletion->items.size(), 1u);
  EXPECT_EQ(deletion->items[0].key, "a<b");
  EXPECT_TRUE(deletion->quiet);
  EXPECT_EQ(parse_location("").value(), "");
  for (const char* wrong : {"", "<", "<Delete/>", "<Delete><Object/></Delete>", "<Other/>"}) {
    EXPECT_EQ(parse_completion(wrong).error().code, "MalformedXML");
    EXPECT_EQ(parse_deletion(wrong).error().code, "MalformedXML");
  }
}

TEST(S3Documents, KeysAreEscapedAsInAFormWhereTheClientWishesIt) {
  Request request{Operation::ListObjectsV2, "b", "", {{"encoding-type", "url"}}, {}};
  const Listing listing{{"a b+c/\u00fc~*"}, {}, ""};
  const std::string document = list_objects(request, listing, {{listing.keys[0], 1, "e"}}, 1000);
  EXPECT_NE(document.find("<Key>a+b%2Bc/%C3%BC%7E*</Key>"), std::string::npos) << document;
}

Request get(const std::string& key) { return {Operation::GetObject, "b", key, {}, {}}; }

TEST(S3Faults, AFaultIsForSoManyRequestsOfAKey) {
  Faults faults;
  ASSERT_TRUE(faults.fault("s3-reset", {{"after", "5"}, {"count", "2"}, {"key", "b/x*"}}, Time{}));
  EXPECT_FALSE(faults.treat(get("y"), Time{}).reset_after);
  EXPECT_EQ(faults.treat(get("x1"), Time{}).reset_after, 5U);
  EXPECT_EQ(faults.treat(get("x2"), Time{}).reset_after, 5U);
  EXPECT_FALSE(faults.treat(get("x3"), Time{}).reset_after);
}

TEST(S3Faults, SoManyRequestsASecondPass) {
  Faults faults;
  ASSERT_TRUE(faults.fault("s3-slow-down", {{"above", "10"}}, Time{}));
  const auto passed = [&](Time now) {
    int count = 0;
    for (int i = 0; i < 100; ++i) count += !faults.treat(get("k"), now).admission.error;
    return count;
  };
  EXPECT_EQ(passed(Time{}), 10);
  EXPECT_EQ(passed(Time{Duration{500}}), 5);
  EXPECT_EQ(passed(Time{Duration{60'000}}), 10);
}

TEST(S3Faults, DenialIsByOperationOrByIamAction) {
  Faults faults;
  const Request part{Operation::UploadPart, "b", "k", {}, {}};
  for (const char* action : {"UploadPart", "PutObject", "*"}) {
    ASSERT_TRUE(faults.fault("deny", {{"action", action}}, Time{}));
    EXPECT_EQ(faults.treat(part, Time{}).admission.error->code, "AccessDenied") << action;
    ASSERT_TRUE(faults.fault("clear", {}, Time{}));
    EXPECT_FALSE(faults.treat(part, Time{}).admission.error);
  }
}

TEST(S3Faults, AMalformedArgumentChangesNothing) {
  Faults faults;
  EXPECT_FALSE(faults.fault("s3-slow", {{"rate", "fast"}}, Time{}));
  EXPECT_FALSE(faults.fault("s3-nothing", {}, Time{}));
  EXPECT_EQ(faults.treat(get("k"), Time{}).rate, 0U);
}

}  // namespace
}  // namespace spotter::world::s3
