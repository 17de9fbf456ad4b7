// GetObject, HeadObject, ListObjects and CopyObject.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "tests/emulator/form.hpp"
#include "tests/emulator/s3/exchange.hpp"
#include "tests/world/cloud.hpp"
#include "tests/world/s3/conditions.hpp"
#include "tests/world/s3/multipart.hpp"

namespace spotter::emulator::s3 {
namespace {

constexpr std::size_t most_keys = 1000;
constexpr std::array kept_headers = {"cache-control", "content-disposition", "content-encoding",
                                     "content-language", "expires"};

// "gzip,aws-chunked" is gzip: the other was for the way only.
std::string stored_encoding(const std::string& encoding) {
  std::string kept;
  for (std::size_t at = 0; at <= encoding.size();) {
    const auto end = std::min(encoding.find(',', at), encoding.size());
    std::string one = encoding.substr(at, end - at);
    one.erase(0, std::min(one.find_first_not_of(' '), one.size()));
    if (!one.empty() && one != "aws-chunked") kept += (kept.empty() ? "" : ",") + one;
    at = end + 1;
  }
  return kept;
}

// The range of one part of an object that was uploaded in parts.
Expected<api::ByteRange> part_range(const Object& object, std::uint64_t number) {
  const auto& sizes = object.attributes->part_sizes;
  if (sizes.empty() && number == 1) return api::ByteRange{0, object.identity.size};
  if (number > sizes.size())
    return world::refusal("InvalidPartNumber", "The requested partnumber is not satisfiable", 416);
  api::ByteRange range{0, sizes[number - 1]};
  for (std::uint64_t i = 0; i + 1 < number; ++i) range.first += sizes[i];
  return range;
}

Headers headers_of(const Object& object, const api::Request& request, bool whole) {
  Headers headers = {{"Last-Modified", world::http_date(modified_of(object.identity))},
                     {"ETag", in_quotes(object.attributes->etag)},
                     {"Accept-Ranges", "bytes"}};
  for (const auto& [name, value] : object.attributes->headers)
    if (!request.query.contains("response-" + name)) headers.emplace_back(name, value);
  for (const auto* name : kept_headers)
    if (const auto given = request.parameter("response-" + std::string(name)); !given.empty())
      headers.emplace_back(name, given);
  if (request.header("x-amz-checksum-mode") != "ENABLED" || !whole) return headers;
  for (const auto& [algorithm, value] : object.attributes->checksums)
    headers.emplace_back(api::checksum_header_of(algorithm), value);
  if (!object.attributes->checksums.empty())
    headers.emplace_back("x-amz-checksum-type", api::type_name(object.attributes->composite));
  return headers;
}

std::string type_of(const Object& object, const api::Request& request) {
  const std::string& type = object.attributes->content_type;
  return request.parameter("response-content-type", type.empty() ? "binary/octet-stream" : type);
}

std::optional<Refused> refuse_reading(const api::Request& request, const Object& object,
                                      const std::string& prefix = "") {
  if (api::reading(request, object.attributes->etag, modified_of(object.identity), prefix) !=
      api::Condition::Failed)
    return std::nullopt;
  return Refused{
      {"PreconditionFailed", "At least one of the pre-conditions you specified did not hold", 412},
      {{"Condition", prefix + (request.header(prefix + "if-match").empty() ? "If-Unmodified-Since"
                                                                           : "If-Match")}}};
}

// "BUCKET/KEY" of a copy's source, whose key's own question marks are escaped.
std::string source_of(const api::Request& request) {
  std::string source = request.header("x-amz-copy-source");
  source = percent_decode(source.substr(0, source.find('?')), Plus::Literal);
  return source.substr(source.starts_with('/') ? 1 : 0);
}

tl::unexpected<Refused> unsatisfiable(const std::string& range, std::uint64_t size) {
  return tl::unexpected(
      Refused{{"InvalidRange", "The requested range is not satisfiable", 416},
              {{"RangeRequested", range}, {"ActualObjectSize", std::to_string(size)}}});
}

}  // namespace

std::string digest_of(api::Algorithm algorithm, int descriptor) {
  const auto digest = api::make_digest(algorithm);
  std::string piece(1024 * 1024, '\0');
  off_t at = 0;
  for (ssize_t got = 0; (got = ::pread(descriptor, piece.data(), piece.size(), at)) > 0; at += got)
    digest->take(std::string_view(piece.data(), static_cast<std::size_t>(got)));
  return digest->finish();
}

Attributes described(const api::Request& request) {
  Attributes attributes;
  attributes.content_type = request.header("content-type");
  for (const auto* name : kept_headers)
    if (request.headers.contains(name)) attributes.headers[name] = request.header(name);
  if (const auto encoding = attributes.headers.find("content-encoding");
      encoding != attributes.headers.end()) {
    encoding->second = stored_encoding(encoding->second);
    if (encoding->second.empty()) attributes.headers.erase(encoding);
  }
  for (const auto& [name, value] : request.headers)
    if (name.starts_with("x-amz-meta-")) attributes.headers[name] = value;
  return attributes;
}

tl::expected<Object, Refused> Exchange::found_object() {
  auto object = store().find(request().bucket, request().key, true);
  // "If you don't have the s3:ListBucket permission, Amazon S3 returns 403"
  if (!object && service_.hides_missing_keys())
    return refuse("AccessDenied", "User is not authorized to perform: s3:ListBucket", 403);
  if (!object) return tl::unexpected(Refused{object.error(), {{"Key", request().key}}});
  if (!treatment().replaced) return *object;
  Attributes other = *object->attributes;
  other.etag = api::hexadecimal(api::digest(api::Algorithm::Md5, other.etag + " replaced"));
  object->attributes = std::make_shared<const Attributes>(std::move(other));
  return *object;
}

FileBody Exchange::content(const Object& object, const api::ByteRange& part) {
  FileBody body{object.descriptor, part.first, part.size};
  body.pace = service_.traffic().pace(treatment());
  if (body.pace) body.piece = Traffic::piece(treatment());
  body.reset_after = treatment().reset_after;
  if (treatment().spoiled && part.size > 0) body.spoiled = part.size / 2;
  return body;
}

Answer Exchange::read_object() {
  const auto object = found_object();
  if (!object) return tl::unexpected(object.error());
  if (auto refused = refuse_reading(request(), *object)) return tl::unexpected(*refused);
  const std::uint64_t size = object->identity.size;
  HttpResponse response{200, "", type_of(*object, request())};
  auto selection = api::select_range(request().header("range"), size);
  if (request().query.contains("partNumber") && !request().header("range").empty())
    return refuse("InvalidRequest",
                  "Cannot specify both Range header and partNumber query parameter");
  if (request().query.contains("partNumber")) {
    const auto number = api::part_number(request());
    if (!number) return refuse(number.error());
    const auto part = part_range(*object, static_cast<std::uint64_t>(*number));
    if (!part) return refuse(part.error());
    selection = *part;
  }
  if (std::holds_alternative<api::Unsatisfiable>(selection))
    return unsatisfiable(request().header("range"), size);
  const auto* const part = std::get_if<api::ByteRange>(&selection);
  response.headers = headers_of(*object, request(), part == nullptr);
  if (api::reading(request(), object->attributes->etag, modified_of(object->identity)) ==
      api::Condition::NotModified) {
    response.status = 304;
    response.content_type.clear();
    response.headers = headers_of(*object, request(), false);  // S3's carries no checksum
    return response;
  }
  if (part != nullptr) {
    response.status = 206;
    response.headers.emplace_back("Content-Range",
                                  "bytes " + std::to_string(part->first) + "-" +
                                      std::to_string(part->first + part->size - 1) + "/" +
                                      std::to_string(size));
  }
  if (request().query.contains("partNumber") && !object->attributes->part_sizes.empty())
    response.headers.emplace_back("x-amz-mp-parts-count",
                                  std::to_string(object->attributes->part_sizes.size()));
  response.file = content(*object, part != nullptr ? *part : api::ByteRange{0, size});
  return response;
}

Answer Exchange::list_objects() {
  const auto most = api::parse_count(request(), "max-keys", most_keys);
  if (!most) return refuse(most.error());
  api::ListingOf what{request().parameter("prefix"), request().parameter("delimiter"), "",
                      std::min<std::size_t>(*most, most_keys)};
  const bool second = request().operation == api::Operation::ListObjectsV2;
  what.after = request().parameter(second ? "start-after" : "marker");
  if (second && request().query.contains("continuation-token")) {
    const auto after = api::parse_continuation_token(request().parameter("continuation-token"));
    if (!after) return refuse("InvalidArgument", "The continuation token provided is incorrect");
    what.after = *after;
  }
  auto listing = api::list(what, *store().keys(request().bucket));
  if (treatment().lists_again && !listing.keys.empty())
    listing.next = what.after.empty() ? listing.keys.front() : what.after;
  if (treatment().lists_nothing) listing = {{}, {}, what.after + "x"};
  std::vector<api::Summary> rows;
  for (const std::string& key : listing.keys) {
    const auto object = store().look(request().bucket, key);
    if (!object) continue;  // it has gone since
    api::Summary row{key, object->identity.size, object->attributes->etag,
                     modified_of(object->identity)};
    for (const auto& [algorithm, value] : object->attributes->checksums)
      row.checksums.push_back(algorithm);
    row.composite = object->attributes->composite;
    rows.push_back(std::move(row));
  }
  listing.keys.resize(rows.size());
  return document(api::list_objects(request(), listing, rows, what.most));
}

tl::expected<Object, Refused> Exchange::copy_source() {
  const std::string given = request().header("x-amz-copy-source");
  if (const auto at = given.find('?');
      at != given.npos && std::string_view(given).substr(at) != "?versionId=null")
    return refuse("InvalidArgument", "Invalid version id specified");
  const std::string source = source_of(request());
  const auto slash = source.find('/');
  if (slash == std::string::npos)
    return refuse("InvalidArgument", "Copy Source must mention the source bucket and key");
  auto from = store().bucket(source.substr(0, slash));
  if (!from) return refuse(from.error());
  const std::string owner = request().header("x-amz-source-expected-bucket-owner");
  if (!owner.empty() && owner != service_.parts().account)
    return refuse("AccessDenied", "Access Denied", 403);
  auto object = store().find(from->name, source.substr(slash + 1), true);
  if (!object) return refuse(object.error());
  const std::string prefix = "x-amz-copy-source-";
  if (auto refused = refuse_reading(request(), *object, prefix)) return tl::unexpected(*refused);
  if (api::reading(request(), object->attributes->etag, modified_of(object->identity), prefix) ==
      api::Condition::NotModified)
    return refuse("PreconditionFailed",
                  "At least one of the pre-conditions you specified did not hold", 412);
  return *object;
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
std::optional<Refused> Exchange::refuse_copy(bool replaces) const {
  const std::string directive = request().header("x-amz-metadata-directive");
  if (!directive.empty() && directive != "COPY" && directive != "REPLACE")
    return Refused{{"InvalidArgument", "Unknown metadata directive.", 400}};
  const bool changes = replaces || request().headers.contains("x-amz-storage-class") ||
                       request().headers.contains("x-amz-server-side-encryption") ||
                       request().headers.contains("x-amz-checksum-algorithm");
  if (changes || source_of(request()) != request().bucket + "/" + request().key)
    return std::nullopt;
  return Refused{{"InvalidRequest",
                  "This copy request is illegal because it is trying to copy an object to itself "
                  "without changing the object's metadata, storage class, website redirect "
                  "location or encryption attributes.",
                  400}};
}

Answer Exchange::copy_object() {
  const auto from = copy_source();
  if (!from) return tl::unexpected(from.error());
  const bool replaces = request().header("x-amz-metadata-directive") == "REPLACE";
  if (auto refused = refuse_copy(replaces)) return tl::unexpected(*refused);
  const auto draft = store().draft();
  if (!draft || !draft->append_file(*from->descriptor, 0, from->identity.size))
    return refuse("InternalError", "The object cannot be copied.", 500);
  Attributes attributes = *from->attributes;
  if (replaces) attributes = described(request());
  api::Algorithm algorithm = default_checksum;
  if (const auto& its = from->attributes->checksums; !its.empty()) algorithm = its.begin()->first;
  if (const auto wished = api::checksum_algorithm(request().header("x-amz-checksum-algorithm")))
    algorithm = *wished;
  attributes.checksums = {{algorithm, api::base64(digest_of(algorithm, draft->descriptor()))}};
  attributes.etag = api::hexadecimal(digest_of(api::Algorithm::Md5, draft->descriptor()));
  attributes.part_sizes.clear();
  attributes.composite = false;
  const auto made = publish(*draft, attributes);
  if (!made) return refuse(made.error());
  return document(
      api::copied(request(), attributes.etag, modified_of(made->identity), attributes.checksums));
}

}  // namespace spotter::emulator::s3
