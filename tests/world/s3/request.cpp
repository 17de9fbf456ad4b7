#include "tests/world/s3/request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "tests/world/s3/members.hpp"

namespace spotter::world::s3 {
namespace {

struct Described {
  std::string_view name;
  std::string_view permission;
};
// In the enumeration's order.
constexpr std::array descriptions = {
    Described{"ListBuckets", "ListAllMyBuckets"},
    Described{"CreateBucket", "CreateBucket"},
    Described{"HeadBucket", "ListBucket"},
    Described{"DeleteBucket", "DeleteBucket"},
    Described{"GetBucketLocation", "GetBucketLocation"},
    Described{"ListObjects", "ListBucket"},
    Described{"ListObjectsV2", "ListBucket"},
    Described{"DeleteObjects", "DeleteObject"},
    Described{"ListMultipartUploads", "ListBucketMultipartUploads"},
    Described{"GetObject", "GetObject"},
    Described{"HeadObject", "GetObject"},
    Described{"PutObject", "PutObject"},
    Described{"CopyObject", "PutObject"},
    Described{"DeleteObject", "DeleteObject"},
    Described{"CreateMultipartUpload", "PutObject"},
    Described{"UploadPart", "PutObject"},
    Described{"UploadPartCopy", "PutObject"},
    Described{"CompleteMultipartUpload", "PutObject"},
    Described{"AbortMultipartUpload", "AbortMultipartUpload"},
    Described{"ListParts", "ListMultipartUploadParts"},
};

struct Route {
  std::string_view method;
  bool with_key;
  std::string_view marker;  // a query parameter, or a header where it begins with "x-amz-"
  Operation operation;
};
// The first that fits; a marker goes before none.
constexpr std::array routes = {
    Route{"GET", false, "location", Operation::GetBucketLocation},
    Route{"GET", false, "uploads", Operation::ListMultipartUploads},
    Route{"GET", false, "list-type", Operation::ListObjectsV2},
    Route{"GET", false, "", Operation::ListObjects},
    Route{"HEAD", false, "", Operation::HeadBucket},
    Route{"PUT", false, "", Operation::CreateBucket},
    Route{"DELETE", false, "", Operation::DeleteBucket},
    Route{"POST", false, "delete", Operation::DeleteObjects},
    Route{"GET", true, "uploadId", Operation::ListParts},
    Route{"GET", true, "", Operation::GetObject},
    Route{"HEAD", true, "", Operation::HeadObject},
    Route{"PUT", true, "uploadId", Operation::UploadPart},
    Route{"PUT", true, "x-amz-copy-source", Operation::CopyObject},
    Route{"PUT", true, "", Operation::PutObject},
    Route{"DELETE", true, "uploadId", Operation::AbortMultipartUpload},
    Route{"DELETE", true, "", Operation::DeleteObject},
    Route{"POST", true, "uploads", Operation::CreateMultipartUpload},
    Route{"POST", true, "uploadId", Operation::CompleteMultipartUpload},
};

// Subresources that S3 has and this one has not.
constexpr std::array<std::string_view, 30> unknown_subresources = {"accelerate",
                                                                   "acl",
                                                                   "analytics",
                                                                   "attributes",
                                                                   "cors",
                                                                   "encryption",
                                                                   "intelligent-tiering",
                                                                   "inventory",
                                                                   "legal-hold",
                                                                   "lifecycle",
                                                                   "logging",
                                                                   "metrics",
                                                                   "notification",
                                                                   "object-lock",
                                                                   "ownershipControls",
                                                                   "policy",
                                                                   "policyStatus",
                                                                   "publicAccessBlock",
                                                                   "replication",
                                                                   "requestPayment",
                                                                   "restore",
                                                                   "retention",
                                                                   "select",
                                                                   "session",
                                                                   "tagging",
                                                                   "torrent",
                                                                   "versioning",
                                                                   "versions",
                                                                   "website",
                                                                   "renameObject"};

constexpr std::size_t longest_key = 1024;  // bytes of UTF-8

bool has_marker(const Request& request, std::string_view marker) {
  const std::string name(marker);
  return marker.empty() || request.query.contains(name) ||
         (marker.starts_with("x-amz-") && request.headers.contains(name));
}

Expected<Operation> route(const std::string& method, const Request& request) {
  for (const auto name : unknown_subresources)
    if (request.query.contains(std::string(name)))
      return refusal("NotImplemented",
                     "A header or query you provided implies functionality that is not "
                     "implemented: " +
                         std::string(name),
                     501);
  for (const Route& it : routes) {
    if (it.method != method || it.with_key == request.key.empty()) continue;
    if (!has_marker(request, it.marker)) continue;
    const bool copies = request.headers.contains("x-amz-copy-source");
    return it.operation == Operation::UploadPart && copies ? Operation::UploadPartCopy
                                                           : it.operation;
  }
  return refusal("MethodNotAllowed", "The specified method is not allowed against this resource.",
                 405);
}

bool is_label(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

}  // namespace

std::string_view name(Operation operation) {
  return descriptions.at(static_cast<std::size_t>(operation)).name;
}

std::string_view permission(Operation operation) {
  return descriptions.at(static_cast<std::size_t>(operation)).permission;
}

bool writes(Operation operation) {
  const auto what = permission(operation);
  return what.starts_with("Put") || what.starts_with("Delete") || what.starts_with("Create") ||
         what.starts_with("Abort");
}

bool carries_content(Operation operation) {
  return operation == Operation::PutObject || operation == Operation::UploadPart;
}

std::string Request::parameter(const std::string& name, const std::string& otherwise) const {
  const auto found = query.find(name);
  return found == query.end() ? otherwise : found->second;
}

std::string Request::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

Expected<std::uint64_t> parse_count(const Request& request, const std::string& name,
                                    std::uint64_t otherwise) {
  const std::string text = request.parameter(name);
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || value > INT32_MAX)
    return refusal("InvalidArgument",
                   "Provided " + name + " not an integer or within integer range");
  return value;
}

std::string bucket_of_host(std::string_view host) {
  host = host.substr(0, host.rfind(':'));
  std::string_view rest;
  for (const std::string_view domain : {".localhost", ".amazonaws.com"}) {
    if (!host.ends_with(domain)) continue;
    rest = host.substr(0, host.size() - domain.size());
  }
  if (rest.starts_with("s3.") || rest == "s3") return {};
  const auto service = rest.rfind(".s3.");
  if (service != std::string_view::npos) rest = rest.substr(0, service);
  if (rest.ends_with(".s3")) rest.remove_suffix(3);
  return std::string(rest);
}

Expected<Request> classify(const std::string& method, const std::string& path, Fields query,
                           Fields headers) {
  Request request{Operation::ListBuckets, "", "", std::move(query), std::move(headers)};
  // A presigned address may carry headers: "x-amz-checksum-crc32=...".
  for (const auto& [name, value] : request.query)
    if (name.starts_with("x-amz-")) request.headers.try_emplace(name, value);
  std::string rest = path.empty() ? "" : path.substr(1);
  request.bucket = bucket_of_host(request.header("host"));
  if (request.bucket.empty()) {
    const auto slash = rest.find('/');
    request.bucket = rest.substr(0, slash);
    rest = slash == std::string::npos ? "" : rest.substr(slash + 1);
  }
  request.key = rest;
  if (request.bucket.empty()) {
    if (method == "GET" && rest.empty()) return request;
    return refusal("MethodNotAllowed", "The specified method is not allowed against this resource.",
                   405);
  }
  if (!is_bucket_name(request.bucket))
    return refusal("InvalidBucketName", "The specified bucket is not valid.");
  if (request.key.size() > longest_key) return refusal("KeyTooLongError", "Your key is too long");
  if (!is_utf8(request.key)) return refusal("InvalidURI", "Couldn't parse the specified URI.");
  const auto operation = route(method, request);
  if (!operation) return tl::unexpected(operation.error());
  request.operation = *operation;
  if (auto refused = refuse_members(request)) return tl::unexpected(*refused);
  return request;
}

namespace {

// "must not be formatted as an IP address (for example, 192.168.5.4)"
bool is_address(std::string_view name) {
  return std::ranges::count(name, '.') == 3 &&
         name.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_reserved(std::string_view name) {
  const auto begins = [&](std::string_view it) { return name.starts_with(it); };
  const auto ends = [&](std::string_view it) { return name.ends_with(it); };
  constexpr std::array prefixes = {"xn--", "sthree-", "amzn-s3-demo-"};
  constexpr std::array suffixes = {"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3", "-an"};
  return std::ranges::any_of(prefixes, begins) || std::ranges::any_of(suffixes, ends);
}

}  // namespace

bool is_bucket_name(std::string_view name) {
  if (is_address(name) || is_reserved(name)) return false;
  return name.size() >= 3 && name.size() <= 63 && std::all_of(name.begin(), name.end(), is_label) &&
         name.front() != '.' && name.front() != '-' && name.back() != '.' && name.back() != '-' &&
         name.find("..") == std::string_view::npos;
}

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    if (first < 0x80) continue;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || text.size() - i < static_cast<std::size_t>(more))
      return false;
    std::uint32_t code = first & (0x3fU >> more);
    for (int k = 0; k < more; ++k) {
      const auto next = static_cast<unsigned char>(text[i++]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

}  // namespace spotter::world::s3
