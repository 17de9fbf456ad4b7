#include "agent/aws/formats/s3.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <pugixml.hpp>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

bool is_lower(char each) { return each >= 'a' && each <= 'z'; }
bool is_digit(char each) { return each >= '0' && each <= '9'; }
bool is_alphanumeric(char each) {
  return is_lower(each) || is_digit(each) || (each >= 'A' && each <= 'Z');
}
int value_of_digit(char digit) {
  if (is_digit(digit)) return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

// A reserved end of a bucket's name, and why such a name is refused. Source:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html (reserved suffixes)
struct Reserved {
  std::string_view end;
  const char* why;
};
constexpr Reserved reserved[] = {
    {"--x-s3",
     "is in a directory bucket (S3 Express One Zone), which wants credentials of a session and its "
     "zone's own endpoint: Spotter reads and writes general purpose buckets only"},
    {"--xa-s3",
     "is an access point of a directory bucket (S3 Express One Zone): Spotter reads and writes "
     "general purpose buckets only"},
    {".mrap",
     "is a Multi-Region Access Point, which wants another signature (SigV4A): name the bucket of "
     "one region"},
    {"--ol-s3", "is an Object Lambda Access Point: name the bucket itself"},
};

// The element of that name at the top, whatever its namespace.
Result<pugi::xml_document> document_of(std::string_view xml, const char* name) {
  pugi::xml_document document;
  // Keys may begin or end with blanks, and be nothing else.
  const auto parsed = document.load_buffer(xml.data(), xml.size(),
                                           pugi::parse_default | pugi::parse_ws_pcdata_single);
  if (!parsed || document.document_element().name() != std::string_view(name))
    return failure("S3's answer is no " + std::string(name));
  return document;
}

bool among(pugi::xml_node node, const char* name, std::string_view value) {
  for (const auto& each : node.children(name)) {
    if (each.child_value() == value) return true;
  }
  return false;
}

// A restored one has a copy that can be read, until its RestoreExpiryDate.
bool is_archived(pugi::xml_node object) {
  const std::string_view kept = object.child_value("StorageClass");
  const auto restored = object.child("RestoreStatus");
  const bool readable = *restored.child_value("RestoreExpiryDate") != '\0' &&
                        restored.child_value("IsRestoreInProgress") != std::string_view("true");
  return (kept == "GLACIER" || kept == "DEEP_ARCHIVE") && !readable;
}

void append_text(std::string& out, std::string_view text) {
  for (const char each : text) {
    if (each == '&') {
      out += "&amp;";
    } else if (each == '<') {
      out += "&lt;";
    } else if (each == '>') {
      out += "&gt;";
    } else {
      out += each;
    }
  }
}

}  // namespace

bool is_bucket_name(std::string_view name) {
  if (name.size() < 3 || name.size() > 255) return false;
  const auto fits = [](char each) {
    return is_alphanumeric(each) || each == '-' || each == '.' || each == '_';
  };
  return std::ranges::all_of(name, fits) && is_alphanumeric(name.front());
}

bool fits_into_host(std::string_view bucket, bool encrypted) {
  if (bucket.size() > 63 || !is_bucket_name(bucket)) return false;
  const auto fits = [&](char each) {
    return is_lower(each) || is_digit(each) || each == '-' || (each == '.' && !encrypted);
  };
  return std::ranges::all_of(bucket, fits) && bucket.back() != '-' && bucket.back() != '.';
}

Result<S3Location> parse_s3_url(std::string_view url) {
  const auto wrong = [&](const char* why) {
    return failure("'" + std::string(url.substr(0, 200)) + "' " + why);
  };
  if (!url.starts_with("s3://")) return wrong("is no S3 URL: s3://bucket/key");
  url.remove_prefix(5);
  const auto slash = std::min(url.find('/'), url.size());
  S3Location location{std::string(url.substr(0, slash)), {}};
  if (slash < url.size()) location.key = url.substr(slash + 1);
  if (location.bucket.starts_with("arn:"))
    return wrong("is an ARN: name an access point by its alias, which ends with -s3alias");
  for (const auto& [end, why] : reserved)
    if (location.bucket.ends_with(end)) return wrong(why);
  if (!is_bucket_name(location.bucket)) return wrong("names no bucket: s3://bucket/key");
  if (location.key.size() > longest_s3_key) return wrong("has a key of more than 1024 bytes");
  return location;
}

std::string to_url(const S3Location& location) {
  return "s3://" + location.bucket + "/" + location.key;
}

std::string escape_path(std::string_view key) {
  std::string out;
  while (true) {
    const auto slash = std::min(key.find('/'), key.size());
    out += escape(key.substr(0, slash));
    if (slash == key.size()) return out;
    out += '/';
    key.remove_prefix(slash + 1);
  }
}

std::string unescape_form(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size() &&
                         value_of_digit(text[i + 1]) >= 0 && value_of_digit(text[i + 2]) >= 0;
    if (escaped) {
      out += static_cast<char>(value_of_digit(text[i + 1]) * 16 + value_of_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::string escape_query(S3Query query) {
  for (auto& [name, value] : query) {
    name = escape(name);
    value = escape(value);
  }
  std::ranges::sort(query);
  std::string out;
  for (const auto& [name, value] : query)
    out.append(out.empty() ? "" : "&").append(name).append("=").append(value);
  return out;
}

std::optional<std::uint64_t> parse_count(std::string_view digits) {
  return number_of_text<std::uint64_t>(digits);
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const auto dash = text.find('-');
  const auto slash = text.find('/');
  if (dash == text.npos || slash == text.npos || dash > slash) return std::nullopt;
  const auto first = parse_count(text.substr(0, dash));
  const auto last = parse_count(text.substr(dash + 1, slash - dash - 1));
  const auto total = parse_count(text.substr(slash + 1));
  if (!first || !last || !total || *first > *last || *last >= *total) return std::nullopt;
  return ContentRange{*first, *last, *total};
}

std::string to_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string out(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  const int padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  if (size < padding) return std::nullopt;
  out.resize(static_cast<std::size_t>(size - padding));
  // It takes spaces around the text, and bits that nobody writes.
  if (to_base64(out) != text) return std::nullopt;
  return out;
}

std::string quoted_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.empty() || etag.starts_with('"')) return std::string(etag);
  return "\"" + std::string(etag) + "\"";
}

Result<ListPage> decode_list(std::string_view xml) {
  const auto document = TRY(document_of(xml, "ListBucketResult"));
  const auto root = document.document_element();
  ListPage page;
  const bool escaped = root.child_value("EncodingType") == std::string_view("url");
  const auto text = [&](const char* value) {
    return escaped ? unescape_form(value) : std::string(value);
  };
  for (const auto& node : root.children("Contents")) {
    ListedObject object;
    object.key = text(node.child_value("Key"));
    object.etag = quoted_etag(node.child_value("ETag"));
    const auto size = parse_count(node.child_value("Size"));
    if (object.key.empty() || object.etag.empty() || !size)
      return failure("S3 lists an object without key, size or ETag");
    object.size = *size;
    object.modified = parse_rfc3339(node.child_value("LastModified")).value_or(WallTime{});
    for (const auto* algorithm : {"CRC32C", "SHA256", "CRC32"})
      object.has_checksum = object.has_checksum || among(node, "ChecksumAlgorithm", algorithm);
    object.archived = is_archived(node);
    page.objects.push_back(std::move(object));
  }
  for (const auto& node : root.children("CommonPrefixes"))
    page.prefixes.push_back(text(node.child_value("Prefix")));
  // Servers write true, True and 1, or nothing where they say how to go on.
  const std::string_view truncated = root.child_value("IsTruncated");
  const bool ends = truncated.find_first_of("fF0") == 0;
  if (!ends) page.next = root.child_value("NextContinuationToken");
  if (!page.next.empty()) return page;
  if (!ends && !truncated.empty()) {
    // A server that knows only the first version of the listing, or not this part of the second.
    std::string last = text(root.child_value("NextMarker"));
    if (last.empty() && !page.objects.empty()) last = page.objects.back().key;
    if (!page.prefixes.empty()) last = std::max(last, page.prefixes.back());
    if (last.empty()) return failure("S3 lists a part only and says not where to go on");
    page.next = "\n" + last;
  }
  return page;
}

Result<std::string> decode_upload_id(std::string_view xml) {
  const auto document = TRY(document_of(xml, "InitiateMultipartUploadResult"));
  std::string id = document.document_element().child_value("UploadId");
  if (id.empty()) return failure("S3 began an upload without a name");
  return id;
}

std::string encode_completion(const std::vector<UploadedPart>& parts) {
  std::string out = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>";
    append_text(out, parts[i].etag);
    out += "</ETag>";
    if (!parts[i].crc32c.empty()) out += "<ChecksumCRC32C>" + parts[i].crc32c + "</ChecksumCRC32C>";
    out += "</Part>";
  }
  return out + "</CompleteMultipartUpload>";
}

S3Refusal parse_s3_error(std::string_view body) {
  const auto document = document_of(body, "Error");
  if (!document) return {};
  const auto root = document->document_element();
  return {.code = root.child_value("Code"),
          .message = root.child_value("Message"),
          .region = root.child_value("Region"),
          .endpoint = root.child_value("Endpoint")};
}

Result<std::string, S3Refusal> decode_completion(std::string_view xml) {
  const auto document = document_of(xml, "CompleteMultipartUploadResult");
  if (document) {
    std::string etag = quoted_etag(document->document_element().child_value("ETag"));
    if (!etag.empty()) return etag;
  }
  S3Refusal refusal = parse_s3_error(xml);
  if (refusal.code.empty()) {
    // Cut off, or no XML: whether the object is there is not known.
    refusal.code = "InternalError";
    refusal.message = "the answer to CompleteMultipartUpload cannot be read";
  }
  return tl::unexpected(std::move(refusal));
}

}  // namespace spotter::wire
