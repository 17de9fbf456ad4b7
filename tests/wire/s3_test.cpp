#include "agent/aws/formats/s3.hpp"

#include <gtest/gtest.h>

#include "agent/aws/formats/sigv4.hpp"

namespace spotter::wire {
namespace {

TEST(S3Url, IsTakenApart) {
  EXPECT_EQ(parse_s3_url("s3://bucket/a b/c")->key, "a b/c");
  EXPECT_EQ(parse_s3_url("s3://bucket")->bucket, "bucket");
  EXPECT_EQ(parse_s3_url("s3://bucket")->key, "");
  for (const char* wrong : {"", "bucket/key", "http://bucket/key", "s3://", "s3:///key", "s3://b/k",
                            "s3://bu cket/key", "s3://-bucket/k"}) {
    EXPECT_FALSE(parse_s3_url(wrong)) << wrong;
  }
  EXPECT_FALSE(parse_s3_url("s3://bucket/" + std::string(1025, 'k')));
}

TEST(S3Url, IsRefusedWithItsReasonWhereS3WantsAnotherWay) {
  const auto why = [](const std::string& url) {
    const auto location = parse_s3_url(url);
    return location ? "" : location.error().message;
  };
  const auto says = [&](const std::string& url, const char* word) {
    return why(url).find(word) != std::string::npos;
  };
  EXPECT_TRUE(says("s3://data--usw2-az1--x-s3/a", "directory bucket"));
  EXPECT_TRUE(says("s3://mine-usw2-az1--xa-s3/a", "directory bucket"));
  EXPECT_TRUE(says("s3://mfzwi23gnjvgw.mrap/a", "Multi-Region"));
  EXPECT_TRUE(says("s3://mine-abc123--ol-s3/a", "Object Lambda"));
  EXPECT_TRUE(says("s3://arn:aws:s3:us-west-2:123456789012:accesspoint/mine", "alias"));
  EXPECT_EQ(why("s3://mine-hrzrlukc5m36ft7okagglf3gmwluquse1b-s3alias/a"), "");
}

TEST(S3Escaping, KeepsOnlyTheUnreserved) {
  EXPECT_EQ(escape_path("a/b c+\xC3\xBC~*"), "a/b%20c%2B%C3%BC~%2A");
  EXPECT_EQ(unescape_form("a+b%2B%c3%BC%zz%4"), "a b+\xC3\xBC%zz%4");
  EXPECT_EQ(escape_query({{"prefix", "a b"}, {"list-type", "2"}, {"uploads", ""}}),
            "list-type=2&prefix=a%20b&uploads=");
}

TEST(S3Base64, IsReadBackAndRefusesWhatNobodyWrites) {
  for (const char* text : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
    EXPECT_EQ(from_base64(to_base64(text)), text);
  }
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  for (const char* wrong : {"Z", "Zm9v=", "Zm9vYg=", "Zm9v!g==", "Zh=="}) {
    EXPECT_FALSE(from_base64(wrong)) << wrong;
  }
}

TEST(S3Range, IsReadOnlyWhenItMakesSense) {
  EXPECT_EQ(parse_content_range("bytes 5-9/10")->first, 5U);
  for (const char* wrong : {"", "bytes", "bytes 5-9", "bytes 5-4/10", "bytes 0-10/10", "bytes */10",
                            "bytes 0-1/*", "bytes -1-2/3"}) {
    EXPECT_FALSE(parse_content_range(wrong)) << wrong;
  }
}

TEST(S3List, ReadsAPage) {
  const auto page = decode_list(R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J</NextContinuationToken>
<Contents><Key>my+image%2B%C3%BC.jpg</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>
<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size>
<ChecksumAlgorithm>CRC32C</ChecksumAlgorithm><StorageClass>DEEP_ARCHIVE</StorageClass></Contents>
<CommonPrefixes><Prefix>photos%2F</Prefix></CommonPrefixes></ListBucketResult>)");
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->objects.size(), 1U);
  EXPECT_EQ(page->objects[0].key, "my image+\xC3\xBC.jpg");
  EXPECT_EQ(page->objects[0].etag, "\"fba9dede5f27731c9771645a39863328\"");
  EXPECT_EQ(page->objects[0].size, 434234U);
  EXPECT_EQ(to_rfc3339(page->objects[0].modified), "2009-10-12T17:50:30Z");
  EXPECT_TRUE(page->objects[0].has_checksum);
  EXPECT_TRUE(page->objects[0].archived);
  EXPECT_EQ(page->prefixes, std::vector<std::string>{"photos/"});
  EXPECT_EQ(page->next, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J");
}

TEST(S3List, ARestoredObjectCanBeRead) {
  const auto archived = [](const std::string& state) {
    const auto page = decode_list(
        "<ListBucketResult><Contents><Key>a</Key><ETag>e</ETag><Size>1</Size>"
        "<StorageClass>GLACIER</StorageClass>" +
        state + "</Contents></ListBucketResult>");
    return page.value().objects.at(0).archived;
  };
  EXPECT_TRUE(archived(""));
  EXPECT_TRUE(
      archived("<RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress>"
               "</RestoreStatus>"));
  EXPECT_FALSE(
      archived("<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress>"
               "<RestoreExpiryDate>2026-12-01T00:00:00.000Z</RestoreExpiryDate>"
               "</RestoreStatus>"));
}

// MinIO, Ceph and R2 were seen to leave out quotes, milliseconds, storage classes and counts; older
// ones know only the listing's first version.
TEST(S3List, ReadsWhatOtherServersLeaveOut) {
  const auto listed = [](const std::string& key, const std::string& tag) {
    return "<Contents><Key>" + key +
           "</Key><LastModified>2026-11-21T10:15:30Z</LastModified><ETag>" + tag +
           "</ETag><Size>3</Size></Contents>";
  };
  const auto page = [](const std::string& inside) {
    return decode_list("<ListBucketResult>" + inside + "</ListBucketResult>");
  };
  const std::string more = "<IsTruncated>true</IsTruncated>";
  const auto plain = page(listed("a+b%2B", "e-2") + listed("c", "W/&quot;f&quot;"));
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->objects[0].key, "a+b%2B") << "nobody said that it is encoded";
  EXPECT_EQ(plain->objects[0].etag, "\"e-2\"");
  EXPECT_EQ(plain->objects[1].etag, "\"f\"");
  EXPECT_EQ(to_rfc3339(plain->objects[0].modified), "2026-11-21T10:15:30Z");
  EXPECT_EQ(plain->next, "");
  EXPECT_EQ(page(more + listed("a", "e") + listed("b", "e")).value().next, "\nb");
  EXPECT_EQ(
      page(more + "<EncodingType>url</EncodingType><NextMarker>b+c</NextMarker>" + listed("a", "e"))
          .value()
          .next,
      "\nb c");
  EXPECT_EQ(page(more + listed("a", "e") + "<CommonPrefixes><Prefix>x/</Prefix></CommonPrefixes>")
                .value()
                .next,
            "\nx/");
}

TEST(S3List, WhatSaysHowToGoOnIsNoEnd) {
  const auto next = [](const std::string& inside) {
    return decode_list("<ListBucketResult>" + inside +
                       "<Contents><Key>a</Key><ETag>e</ETag><Size>1</Size></Contents>"
                       "</ListBucketResult>")
        .value()
        .next;
  };
  const std::string token = "<NextContinuationToken>t</NextContinuationToken>";
  for (const char* yes : {"true", "True", "1"}) {
    const std::string truncated = "<IsTruncated>" + std::string(yes) + "</IsTruncated>";
    EXPECT_EQ(next(truncated), "\na") << yes;
    EXPECT_EQ(next(truncated + token), "t") << yes;
  }
  for (const char* no : {"false", "False", "0"})
    EXPECT_EQ(next("<IsTruncated>" + std::string(no) + "</IsTruncated>" + token), "") << no;
  EXPECT_EQ(next(token), "t");
  EXPECT_EQ(next(""), "");
}

TEST(S3List, HalfAnAnswerIsNone) {
  EXPECT_FALSE(decode_list("<ListBucketResult><Contents><Key>a</Key>"));
  EXPECT_FALSE(
      decode_list("<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"));
  EXPECT_FALSE(decode_list("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"));
  EXPECT_FALSE(decode_list("<Error><Code>AccessDenied</Code></Error>"));
}

TEST(S3Completion, MayBeAnErrorThatSays200) {
  EXPECT_EQ(*decode_completion("<CompleteMultipartUploadResult><ETag>\"x-2\"</ETag>"
                               "</CompleteMultipartUploadResult>"),
            "\"x-2\"");
  EXPECT_EQ(decode_completion("<Error><Code>SlowDown</Code></Error>").error().code, "SlowDown");
  EXPECT_EQ(decode_completion("<Comple").error().code, "InternalError");
  EXPECT_EQ(decode_upload_id("<InitiateMultipartUploadResult><UploadId>U</UploadId>"
                             "</InitiateMultipartUploadResult>"),
            "U");
  EXPECT_EQ(encode_completion({{"\"a&b\"", "x=="}, {"\"c\"", ""}}),
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            "<Part><PartNumber>1</PartNumber><ETag>\"a&amp;b\"</ETag>"
            "<ChecksumCRC32C>x==</ChecksumCRC32C></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>\"c\"</ETag></Part></CompleteMultipartUpload>");
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, "GET Object"
TEST(S3Signature, IsThatOfAwssExample) {
  Canonical request{"GET", "/test.txt", "", {}, sha256_of_nothing};
  request.headers = {{"host", "examplebucket.s3.amazonaws.com"},
                     {"range", "bytes=0-9"},
                     {"x-amz-content-sha256", std::string(sha256_of_nothing)},
                     {"x-amz-date", "20130524T000000Z"}};
  const Credentials keys{
      "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", {}};
  const SigningScope scope{"s3", "us-east-1", *parse_rfc3339("2013-05-24T00:00:00Z")};
  Signer signer;
  const std::string expected =
      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
      "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
      "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
  EXPECT_EQ(signer.authorization(request, keys, scope), expected);
  EXPECT_EQ(signer.authorization(request, keys, scope), expected);  // with the key kept
}

}  // namespace
}  // namespace spotter::wire
