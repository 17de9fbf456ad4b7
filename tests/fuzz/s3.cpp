// Every document and header of S3.
#include "agent/aws/formats/s3.hpp"

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

void lists(std::string_view bytes) {
  const auto page = wire::decode_list(bytes);
  if (!page) {
    must(!page.error().message.empty(), "an error is reported");
    return;
  }
  for (const auto& object : page->objects) {
    must(!object.key.empty() && !object.etag.empty(), "an object has a key and an ETag");
  }
  if (const auto end = bytes.find("</ListBucketResult"); end != bytes.npos) {
    must(!wire::decode_list(bytes.substr(0, end)), "half an answer is no list");
  }
}

void urls(std::string_view bytes) {
  const auto location = wire::parse_s3_url(bytes);
  if (!location) return;
  must(wire::is_bucket_name(location->bucket), "a URL names a bucket");
  must(wire::parse_s3_url(wire::to_url(*location)) == *location, "a URL printed reads the same");
}

void texts(std::string_view bytes) {
  must(wire::from_base64(wire::to_base64(bytes)) == bytes, "base64 is read back");
  if (const auto decoded = wire::from_base64(bytes)) {
    must(wire::to_base64(*decoded) == bytes, "bytes have one base64");
  }
  const std::string escaped = wire::escape_path(bytes);
  must(escaped.find_first_of(" +?#&\"") == escaped.npos, "a path is escaped");
  must(wire::unescape_form(escaped) == bytes, "an escaped path reads the same");
  if (const auto range = wire::parse_content_range(bytes)) {
    must(range->first <= range->last && range->last < range->total, "a range is inside its object");
  }
}

void completions(std::string_view bytes) {
  const auto etag = wire::decode_completion(bytes);
  must(etag ? !etag->empty() : !etag.error().code.empty(),
       "a completion is one thing or the other");
  const auto id = wire::decode_upload_id(bytes);
  must(!id || !id->empty(), "an upload has a name");
  wire::parse_s3_error(bytes);
}

}  // namespace

void examine(std::string_view bytes) {
  lists(bytes);
  urls(bytes);
  texts(bytes);
  completions(bytes);
}

}  // namespace spotter::fuzz
