#include <pugixml.hpp>

#include "agent/aws/formats/s3.hpp"

namespace spotter::wire {
namespace {

// The element of that name at the top, whatever its namespace.
Result<pugi::xml_document> document_of(std::string_view xml, const char* name) {
  pugi::xml_document document;
  // Keys may begin or end with blanks, and be nothing else.
  const auto parsed = document.load_buffer(xml.data(), xml.size(),
                                           pugi::parse_default | pugi::parse_ws_pcdata_single);
  if (!parsed || document.document_element().name() != std::string_view(name)) {
    return failure("S3's answer is no " + std::string(name));
  }
  return document;
}

bool among(pugi::xml_node node, const char* name, std::string_view value) {
  for (const auto& each : node.children(name)) {
    if (each.child_value() == value) return true;
  }
  return false;
}

bool is_archived(std::string_view storage_class) {
  return storage_class == "GLACIER" || storage_class == "DEEP_ARCHIVE";
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

Result<ListPage> decode_list(std::string_view xml) {
  const auto document = document_of(xml, "ListBucketResult");
  if (!document) return tl::unexpected(document.error());
  const auto root = document->document_element();
  ListPage page;
  const bool escaped = root.child_value("EncodingType") == std::string_view("url");
  const auto text = [&](const char* value) {
    return escaped ? unescape_form(value) : std::string(value);
  };
  for (const auto& node : root.children("Contents")) {
    ListedObject object;
    object.key = text(node.child_value("Key"));
    object.etag = node.child_value("ETag");
    const auto size = parse_count(node.child_value("Size"));
    if (object.key.empty() || object.etag.empty() || !size) {
      return failure("S3 lists an object without key, size or ETag");
    }
    object.size = *size;
    object.modified = parse_rfc3339(node.child_value("LastModified")).value_or(WallTime{});
    for (const auto* algorithm : {"CRC32C", "SHA256", "CRC32"}) {
      object.has_checksum = object.has_checksum || among(node, "ChecksumAlgorithm", algorithm);
    }
    object.archived = is_archived(node.child_value("StorageClass"));
    page.objects.push_back(std::move(object));
  }
  for (const auto& node : root.children("CommonPrefixes")) {
    page.prefixes.push_back(text(node.child_value("Prefix")));
  }
  if (root.child_value("IsTruncated") == std::string_view("true")) {
    page.next = root.child_value("NextContinuationToken");
    if (page.next.empty()) return failure("S3 lists a part only and says not where to go on");
  }
  return page;
}

Result<std::string> decode_upload_id(std::string_view xml) {
  const auto document = document_of(xml, "InitiateMultipartUploadResult");
  if (!document) return tl::unexpected(document.error());
  std::string id = document->document_element().child_value("UploadId");
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
    std::string etag = document->document_element().child_value("ETag");
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
