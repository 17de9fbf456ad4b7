#include "tests/world/s3/members.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <pugixml.hpp>
#include <set>

namespace spotter::world::s3 {
namespace {

namespace part {

const std::string owner = " x-amz-expected-bucket-owner ";
// Whoever reads a bucket whose reader pays says so; elsewhere it changes nothing.
const std::string payer = owner + "x-amz-request-payer=requester ";
const std::string pages = payer +
                          "delimiter encoding-type max-keys prefix "
                          "x-amz-optional-object-attributes=restorestatus ";
const std::string algorithms = "=crc32|crc32c|crc64nvme|sha1|sha256 ";
const std::string checksums =
    " x-amz-checksum-crc32 x-amz-checksum-crc32c x-amz-checksum-crc64nvme x-amz-checksum-sha1 "
    "x-amz-checksum-sha256 ";
const std::string content =
    " content-length content-md5 x-amz-sdk-checksum-algorithm" + algorithms + checksums;
const std::string conditions = " if-match if-none-match=* ";
// One version, one storage class, one owner, and S3's own keys are what there is.
const std::string described =
    " cache-control content-disposition content-encoding content-language content-type expires "
    "x-amz-meta-* x-amz-acl=private|bucket-owner-full-control x-amz-server-side-encryption=aes256 "
    "x-amz-storage-class=standard ";
const std::string source =
    " x-amz-copy-source x-amz-copy-source-if-match x-amz-copy-source-if-modified-since "
    "x-amz-copy-source-if-none-match x-amz-copy-source-if-unmodified-since "
    "x-amz-source-expected-bucket-owner ";
const std::string reading =
    payer +
    "if-match if-modified-since if-none-match if-unmodified-since partNumber range "
    "response-cache-control response-content-disposition response-content-encoding "
    "response-content-language response-content-type response-expires versionId=null "
    "x-amz-checksum-mode=enabled";
const std::string unlocked = " x-amz-bypass-governance-retention=false ";

}  // namespace part

const MemberTable table = {
    {"ListBuckets", "bucket-region continuation-token max-buckets prefix"},
    {"CreateBucket",
     "x-amz-acl=private|public-read x-amz-bucket-namespace=global "
     "x-amz-bucket-object-lock-enabled=false "
     "x-amz-object-ownership=bucketownerenforced CreateBucketConfiguration{LocationConstraint}"},
    {"HeadBucket", part::owner},
    {"DeleteBucket", part::owner},
    {"GetBucketLocation", part::owner},
    {"ListObjects", part::pages + "marker"},
    {"ListObjectsV2", part::pages + "continuation-token fetch-owner start-after"},
    {"DeleteObjects", part::payer + part::unlocked + "x-amz-sdk-checksum-algorithm" +
                          part::algorithms + "content-md5" + part::checksums +
                          "Delete{Object{ETag Key VersionId=null} Quiet}"},
    {"ListMultipartUploads",
     part::payer + "delimiter encoding-type key-marker max-uploads prefix upload-id-marker"},
    {"GetObject", part::reading},
    {"HeadObject", part::reading},
    {"PutObject", part::payer + part::content + part::described + part::conditions},
    {"CopyObject", part::payer + part::described + part::conditions + part::source +
                       "x-amz-checksum-algorithm" + part::algorithms +
                       "x-amz-metadata-directive x-amz-tagging-directive=copy|replace"},
    {"DeleteObject", part::payer + part::unlocked + "if-match versionId=null"},
    {"CreateMultipartUpload", part::payer + part::described + "x-amz-checksum-algorithm" +
                                  part::algorithms + "x-amz-checksum-type"},
    {"UploadPart", part::payer + part::content + "partNumber uploadId"},
    {"UploadPartCopy", part::payer + part::source + "partNumber uploadId x-amz-copy-source-range"},
    {"CompleteMultipartUpload",
     part::payer + part::conditions + part::checksums +
         "uploadId x-amz-checksum-type x-amz-mp-object-size CompleteMultipartUpload{Part{ETag "
         "PartNumber ChecksumCRC32 ChecksumCRC32C ChecksumCRC64NVME ChecksumSHA1 "
         "ChecksumSHA256}}"},
    {"AbortMultipartUpload", part::payer + "uploadId"},
    {"ListParts", part::payer + "max-parts part-number-marker uploadId"},
};

// Of HTTP, of signatures and of the form in which a body is sent: wire and signature look at them.
bool is_of_the_wire(std::string_view header) {
  constexpr std::array names = {
      "x-amz-content-sha256",    "x-amz-date",       "x-amz-decoded-content-length",
      "x-amz-security-token",    "x-amz-trailer",    "x-amz-user-agent",
      "x-amz-sdk-invocation-id", "x-amz-sdk-request"};
  return !header.starts_with("x-amz-") || std::ranges::find(names, header) != names.end();
}

const std::set<std::string>& known_queries() {
  static const std::set<std::string> all = [] {
    std::set<std::string> names;
    for (const auto& [operation, members] : table)
      for (const auto& [path, values] : members.all())
        if (path.find('.') == path.npos && !path.starts_with("x-amz-")) names.insert(path);
    return names;
  }();
  return all;
}

ApiError not_implemented(const std::string& name, const std::string& value) {
  return {"NotImplemented",
          "A header or query you provided implies functionality that is not implemented: " + name +
              ". " + not_honoured(name, value),
          501};
}

std::optional<ApiError> refuse_element(const Members& honoured, const pugi::xml_node& node,
                                       const std::string& path) {
  if (node.type() != pugi::node_element) return std::nullopt;
  const bool leaf = std::ranges::none_of(
      node.children(), [](const auto& it) { return it.type() == pugi::node_element; });
  const std::string value = leaf ? node.child_value() : "";
  if (!honoured.honours(path, value)) return not_implemented(path, value);
  for (const auto child : node.children())
    if (auto refused = refuse_element(honoured, child, path + '.' + child.name())) return refused;
  return std::nullopt;
}

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html: "the user-defined
// metadata is limited to 2 KB in size ... the sum of the number of bytes in the UTF-8 encoding of
// each key and value"
constexpr std::size_t most_metadata = 2048;

std::optional<ApiError> refuse_headers(const Request& request) {
  constexpr std::string_view metadata = "x-amz-meta-";
  std::size_t size = 0;
  int checksums = 0;
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with(metadata)) size += name.size() - metadata.size() + value.size();
    checksums += checksum_header(name).has_value();
  }
  if (size > most_metadata)
    return ApiError{"MetadataTooLarge",
                    "Your metadata headers exceed the maximum allowed metadata size"};
  if (checksums + request.headers.contains("x-amz-trailer") > 1)
    return ApiError{"InvalidRequest",
                    "Expecting a single x-amz-checksum- header. Multiple checksum Types are not "
                    "allowed."};
  return std::nullopt;
}

// A completion's checksum is of the whole object, and may say of how many parts.
std::optional<ApiError> refuse_checksum(const Request& request) {
  const auto refused = [](const std::string& why) { return ApiError{"InvalidRequest", why}; };
  const auto given = given_checksum(request);
  const std::string trailer = request.header("x-amz-trailer");
  const std::string stated = request.header("x-amz-sdk-checksum-algorithm");
  if (!trailer.empty() && !checksum_header(trailer))
    return refused("The value specified in the x-amz-trailer header is not supported");
  if (!stated.empty() && !given)
    return refused(
        "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or "
        "x-amz-trailer headers were found.");
  if (!stated.empty() && checksum_algorithm(stated) != given)
    return refused("Value for x-amz-sdk-checksum-algorithm header is invalid.");
  if (!given || !trailer.empty() || request.operation == Operation::CompleteMultipartUpload)
    return std::nullopt;
  const std::string header = checksum_header_of(*given);
  if (is_checksum(*given, request.header(header))) return std::nullopt;
  return refused("Value for " + header + " header is invalid.");
}

std::optional<ApiError> refuse_values(const Request& request) {
  const std::string encoding = request.parameter("encoding-type", "url");
  if (encoding != "url")
    return ApiError{"InvalidArgument", "Invalid Encoding Method specified in Request"};
  for (const char* name : {"x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"})
    if (const std::string owner = request.header(name);
        !owner.empty() && (owner.size() != 12 || !std::ranges::all_of(owner, [](unsigned char it) {
                             return std::isdigit(it) != 0;
                           })))
      return ApiError{"InvalidBucketOwnerAWSAccountID",
                      "The value of the expected bucket owner parameter must be an AWS account ID"};
  return std::nullopt;
}

}  // namespace

const MemberTable& members() { return table; }

std::optional<ApiError> refuse_members(const Request& request) {
  const Members& honoured = table.at(std::string(name(request.operation)));
  for (const auto& [name, value] : request.query)
    if (known_queries().contains(name) && !honoured.honours(name, value))
      return not_implemented(name, value);
  for (const auto& [name, value] : request.headers)
    if ((!is_of_the_wire(name) || honoured.knows(name)) && !honoured.honours(name, value) &&
        !(name.starts_with("x-amz-meta-") && honoured.knows("x-amz-meta-*")))
      return not_implemented(name, value);
  for (const auto refuse : {refuse_values, refuse_headers, refuse_checksum})
    if (auto refused = refuse(request)) return refused;
  return std::nullopt;
}

std::optional<Algorithm> given_checksum(const Request& request) {
  for (const auto& [name, value] : request.headers)
    if (const auto algorithm = checksum_header(name)) return algorithm;
  return checksum_header(request.header("x-amz-trailer"));
}

std::optional<ApiError> refuse_elements(const Request& request, std::string_view text) {
  pugi::xml_document parsed;
  if (!parsed.load_buffer(text.data(), text.size())) return std::nullopt;  // malformed, see there
  const pugi::xml_node root = parsed.document_element();
  const Members& honoured = table.at(std::string(name(request.operation)));
  return honoured.knows(root.name()) ? refuse_element(honoured, root, root.name()) : std::nullopt;
}

}  // namespace spotter::world::s3
