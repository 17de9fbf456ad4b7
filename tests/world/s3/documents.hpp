// S3's XML documents: those of requests to values, values to those of answers. Pure.
// Elements: https://docs.aws.amazon.com/AmazonS3/latest/API, checked against botocore's service
// model by its clients (tests/emulator/clients).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/world/s3/digest.hpp"
#include "tests/world/s3/listing.hpp"
#include "tests/world/s3/request.hpp"
#include "tests/world/settings.hpp"

namespace spotter::world::s3 {

using Checksums = std::map<Algorithm, std::string>;  // base64; of parts: that and "-N"

struct Summary {  // of one object in a listing
  std::string key;
  std::uint64_t size = 0;
  std::string etag;
  WallTime modified{};
  std::vector<Algorithm> checksums = {};
  bool composite = false;
};
struct BucketRow {
  std::string name;
  WallTime created{};
  std::string region = {};  // where it is to be shown
};
struct PartRow {
  int number = 0;
  std::uint64_t size = 0;
  std::string etag;
  WallTime modified{};
  Checksums checksums = {};
};
// The checksum that an upload's parts must have. S3 makes one of the whole object without it, too.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
struct UploadChecksum {
  std::optional<Algorithm> algorithm = {};
  bool full_object = true;  // of the whole, not of the parts' checksums
};
struct UploadRow {
  std::string key;
  std::string id;
  WallTime initiated{};
  UploadChecksum checksum = {};
};
const char* type_name(bool composite);  // of a checksum: COMPOSITE, FULL_OBJECT

// A whole document. `resource`: "/bucket/key". `more`: further elements (Region, Endpoint, ...).
std::string error_document(const ApiError& error, const std::string& resource,
                           const std::string& request_id,
                           const std::vector<std::pair<std::string, std::string>>& more = {});
// `more`: the Prefix and the ContinuationToken that the answer has, where it has them.
std::string list_buckets(const std::vector<BucketRow>& buckets,
                         const std::vector<std::pair<std::string, std::string>>& more = {});
std::string location(const std::string& region);
// `rows`: of listing.keys, in their order. ListObjects and ListObjectsV2, by the operation.
std::string list_objects(const Request& request, const Listing& listing,
                         const std::vector<Summary>& rows, std::size_t most);
struct UploadListing {
  std::vector<UploadRow> uploads;
  std::vector<std::string> common_prefixes;
  std::string next_key, next_id;  // where there is more
};
// `all`: of the bucket, sorted by key and time. Refuses numbers that are none.
Expected<UploadListing> select_uploads(const Request& request, const std::vector<UploadRow>& all);
std::string list_uploads(const Request& request, const UploadListing& listing);
std::string list_parts(const Request& request, const UploadChecksum& checksum,
                       const std::vector<PartRow>& parts, int most, bool truncated);
std::string upload_created(const Request& request, const std::string& id);
std::string upload_completed(const Request& request, const std::string& location,
                             const std::string& etag, const Checksums& checksums, bool composite);
std::string copied(const Request& request, const std::string& etag, WallTime modified,
                   const Checksums& checksums = {});
struct Deletion {
  std::string key;
  std::optional<ApiError> error;
};
std::string deleted(const std::vector<Deletion>& deletions, bool quiet);

// MalformedXML where a document is not what the operation asks for.
struct CompletedPart {
  int number = 0;
  std::string etag;
  Checksums checksums = {};
};
Expected<std::vector<CompletedPart>> parse_completion(std::string_view document);
struct DeleteList {
  struct Item {
    std::string key;
    std::string etag;  // "": any
  };
  std::vector<Item> items;
  bool quiet = false;
};
Expected<DeleteList> parse_deletion(std::string_view document);  // up to 1,000 keys
// The LocationConstraint; empty where there is no document or none in it.
Expected<std::string> parse_location(std::string_view document);

}  // namespace spotter::world::s3
