// Amazon S3's REST interface: names, escaping, headers and documents <-> values. No I/O.
// Source: https://docs.aws.amazon.com/AmazonS3/latest/API/Type_API_Reference.html
#pragma once

#include <cstddef>
#include <optional>

#include "agent/base/clock_text.hpp"

namespace spotter::wire {

// s3://bucket/key. The key may be empty, may be a prefix, and is what the user wrote: unescaped.
struct S3Location {
  std::string bucket;
  std::string key;
  friend bool operator==(const S3Location&, const S3Location&) = default;
};
// Refuses what needs other calls to S3: ARNs, directory buckets, Multi-Region Access Points and
// Object Lambda. An access point is named by its alias, like a bucket.
Result<S3Location> parse_s3_url(std::string_view url);
std::string to_url(const S3Location& location);

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html; old buckets may
// have upper case and underscores, and are then reached by path only.
bool is_bucket_name(std::string_view name);
// May stand as a label before the endpoint's host. A dot breaks the certificate's wildcard.
bool fits_into_host(std::string_view bucket, bool encrypted);

inline constexpr std::size_t longest_s3_key = 1024;  // bytes of UTF-8

std::string escape_path(std::string_view key);     // all but the unreserved ones and the slash
std::string unescape_form(std::string_view text);  // %XX, and + as a blank: as S3 lists keys
using S3Query = std::vector<std::pair<std::string, std::string>>;
std::string escape_query(S3Query query);  // sorted, as the signature wants it

// Content-Range: bytes 0-9/100
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t total = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view text);
std::optional<std::uint64_t> parse_count(std::string_view digits);

std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);

struct ListedObject {
  std::string key;
  std::uint64_t size = 0;
  std::string etag;           // with its quotes, as it is sent back
  WallTime modified{};        // the epoch where S3 does not say it
  bool has_checksum = false;  // CRC32C, SHA256 or CRC32, perhaps of its parts' only
  bool archived = false;      // in a storage class that must be restored before it can be read
  friend bool operator==(const ListedObject&, const ListedObject&) = default;
};

struct ListPage {
  std::vector<ListedObject> objects;
  std::vector<std::string> prefixes;  // with a delimiter: the folders
  std::string next;                   // continuation token, or after a line's end the key behind
                                      // which it goes on; empty: the last page
};

// Returns it as AWS has it: others leave the quotes out, or, behind a proxy that packs, call it
// weak.
std::string quoted_etag(std::string_view etag);

// ListObjectsV2 with encoding-type=url.
Result<ListPage> decode_list(std::string_view xml);

Result<std::string> decode_upload_id(std::string_view xml);

struct UploadedPart {
  std::string etag;
  std::string crc32c;  // base64; empty: none was given
};
std::string encode_completion(const std::vector<UploadedPart>& parts);

struct S3Refusal {
  std::string code;  // empty: the body is no error document
  std::string message;
  std::string region;    // of the bucket, where the error says it
  std::string endpoint;  // a TemporaryRedirect's
};
S3Refusal parse_s3_error(std::string_view body);

// The object's ETag, or the error in the answer: CompleteMultipartUpload answers 200 before it has
// finished, so an error may follow.
Result<std::string, S3Refusal> decode_completion(std::string_view xml);

}  // namespace spotter::wire
