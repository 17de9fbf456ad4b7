#include "tests/world/s3/documents.hpp"

#include <pugixml.hpp>

#include "tests/world/cloud.hpp"
#include "tests/world/xml.hpp"

namespace spotter::world::s3 {
namespace {

constexpr const char* declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
constexpr const char* owner_id = "75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a";

std::string document(const std::string& root, const Xml& inner) {
  return declaration + ("<" + root + " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">") +
         inner.str() + "</" + root + ">";
}

std::string quoted(const std::string& etag) { return '"' + etag + '"'; }

// encoding-type=url, as in a form: a space becomes '+'; the slashes stay.
std::string url_encoded(const std::string& text) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._/*").find(c) != std::string_view::npos;
    if (plain || c == ' ') result += plain ? c : '+';
    if (!plain && c != ' ') result += {'%', digits[byte >> 4], digits[byte & 15]};
  }
  return result;
}

void write_owner(Xml& xml, const char* as = "Owner") {
  xml.element(as, [&] {
    xml.text("ID", owner_id);
    xml.text("DisplayName", "emulator");
  });
}

void write_checksums(Xml& xml, const Checksums& checksums) {
  for (const auto& [algorithm, value] : checksums)
    xml.text("Checksum" + std::string(checksum_name(algorithm)), value);
}

void write_checksum(Xml& xml, const UploadChecksum& checksum) {
  if (!checksum.algorithm) return;
  xml.text("ChecksumAlgorithm", checksum_name(*checksum.algorithm));
  xml.text("ChecksumType", type_name(!checksum.full_object));
}

void write_row(Xml& xml, const Summary& row, const std::string& key, bool with_owner) {
  xml.element("Contents", [&] {
    xml.text("Key", key);
    xml.text("LastModified", xml_time(row.modified));
    xml.text("ETag", quoted(row.etag));
    for (const Algorithm algorithm : row.checksums)
      write_checksum(xml, {algorithm, !row.composite});
    xml.value("Size", row.size);
    if (with_owner) write_owner(xml);
    xml.text("StorageClass", "STANDARD");
  });
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjects.html: NextMarker comes only with
// a delimiter; without one the last key serves.
void write_position(Xml& xml, const Request& request, const Listing& listing) {
  const bool second = request.operation == Operation::ListObjectsV2;
  const bool encoded = request.parameter("encoding-type") == "url";
  const auto shown = [&](const std::string& text) { return encoded ? url_encoded(text) : text; };
  if (!second) {
    xml.text("Marker", shown(request.parameter("marker")));
    if (!listing.next.empty() && request.query.contains("delimiter"))
      xml.text("NextMarker", shown(listing.next));
    return;
  }
  xml.value("KeyCount", listing.keys.size() + listing.common_prefixes.size());
  xml.optional("StartAfter", shown(request.parameter("start-after")));
  xml.optional("ContinuationToken", request.parameter("continuation-token"));
  if (!listing.next.empty()) xml.text("NextContinuationToken", continuation_token(listing.next));
}

tl::unexpected<ApiError> malformed() {
  return refusal("MalformedXML",
                 "The XML you provided was not well-formed or did not validate against our "
                 "published schema");
}

bool load(pugi::xml_document& into, std::string_view text, const char* root) {
  // A key may be of spaces alone.
  const auto parsed =
      into.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_ws_pcdata_single,
                       pugi::encoding_utf8);
  return parsed && std::string_view(into.document_element().name()) == root;
}

}  // namespace

const char* type_name(bool composite) { return composite ? "COMPOSITE" : "FULL_OBJECT"; }

std::string error_document(const ApiError& error, const std::string& resource,
                           const std::string& request_id,
                           const std::vector<std::pair<std::string, std::string>>& more) {
  Xml xml;
  xml.text("Code", error.code);
  xml.text("Message", error.message);
  for (const auto& [name, value] : more) xml.text(name, value);
  xml.text("Resource", resource);
  xml.text("RequestId", request_id);
  xml.text("HostId", "spotter-emulator");
  return declaration + ("<Error>" + xml.str() + "</Error>");
}

std::string list_buckets(const std::vector<BucketRow>& buckets,
                         const std::vector<std::pair<std::string, std::string>>& more) {
  Xml xml;
  write_owner(xml);
  xml.element("Buckets", [&] {
    for (const BucketRow& bucket : buckets)
      xml.element("Bucket", [&] {
        xml.text("Name", bucket.name);
        xml.text("CreationDate", xml_time(bucket.created));
        xml.optional("BucketRegion", bucket.region);
      });
  });
  for (const auto& [name, value] : more) xml.text(name, value);
  return document("ListAllMyBucketsResult", xml);
}

// "Buckets in Region us-east-1 have a LocationConstraint of null."
std::string location(const std::string& region) {
  return declaration + ("<LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
                        (region == "us-east-1" ? std::string() : region) + "</LocationConstraint>");
}

std::string list_objects(const Request& request, const Listing& listing,
                         const std::vector<Summary>& rows, std::size_t most) {
  const bool encoded = request.parameter("encoding-type") == "url";
  const auto shown = [&](const std::string& text) { return encoded ? url_encoded(text) : text; };
  const bool with_owner =
      request.operation == Operation::ListObjects || request.parameter("fetch-owner") == "true";
  Xml xml;
  xml.text("Name", request.bucket);
  xml.text("Prefix", shown(request.parameter("prefix")));
  xml.optional("Delimiter", shown(request.parameter("delimiter")));
  xml.value("MaxKeys", most);
  if (encoded) xml.text("EncodingType", "url");
  xml.value("IsTruncated", !listing.next.empty());
  write_position(xml, request, listing);
  for (const Summary& row : rows) write_row(xml, row, shown(row.key), with_owner);
  for (const std::string& prefix : listing.common_prefixes)
    xml.element("CommonPrefixes", [&] { xml.text("Prefix", shown(prefix)); });
  return document("ListBucketResult", xml);
}

std::string list_uploads(const Request& request, const UploadListing& listing) {
  const bool encoded = request.parameter("encoding-type") == "url";
  const auto shown = [&](const std::string& text) { return encoded ? url_encoded(text) : text; };
  Xml xml;
  xml.text("Bucket", request.bucket);
  xml.text("KeyMarker", shown(request.parameter("key-marker")));
  xml.text("UploadIdMarker", request.parameter("upload-id-marker"));
  if (!listing.next_key.empty()) {
    xml.text("NextKeyMarker", shown(listing.next_key));
    xml.text("NextUploadIdMarker", listing.next_id);
  }
  xml.text("Prefix", shown(request.parameter("prefix")));
  xml.optional("Delimiter", shown(request.parameter("delimiter")));
  if (encoded) xml.text("EncodingType", "url");
  xml.text("MaxUploads", request.parameter("max-uploads", "1000"));
  xml.value("IsTruncated", !listing.next_key.empty());
  for (const UploadRow& upload : listing.uploads) {
    xml.element("Upload", [&] {
      xml.text("Key", shown(upload.key));
      xml.text("UploadId", upload.id);
      write_owner(xml, "Initiator");
      write_owner(xml);
      xml.text("StorageClass", "STANDARD");
      xml.text("Initiated", xml_time(upload.initiated));
      write_checksum(xml, upload.checksum);
    });
  }
  for (const std::string& prefix : listing.common_prefixes)
    xml.element("CommonPrefixes", [&] { xml.text("Prefix", shown(prefix)); });
  return document("ListMultipartUploadsResult", xml);
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListMultipartUploads.html: those after the
// marker's key, or of that key and after its upload.
Expected<UploadListing> select_uploads(const Request& request, const std::vector<UploadRow>& all) {
  const auto most = parse_count(request, "max-uploads", 1000);
  if (!most) return tl::unexpected(most.error());
  const std::string prefix = request.parameter("prefix");
  const std::string delimiter = request.parameter("delimiter");
  const std::string key = request.parameter("key-marker"),
                    id = request.parameter("upload-id-marker");
  UploadListing found;
  bool passed = false;  // the marker's upload
  for (const UploadRow& it : all) {
    const bool after = key.empty() || it.key > key || (it.key == key && passed);
    passed = passed || (it.key == key && it.id == id);
    if (!after || !it.key.starts_with(prefix)) continue;
    const auto cut = delimiter.empty() ? it.key.npos : it.key.find(delimiter, prefix.size());
    const std::string common = cut == it.key.npos ? "" : it.key.substr(0, cut + delimiter.size());
    auto& prefixes = found.common_prefixes;
    if (!common.empty() && !prefixes.empty() && prefixes.back() == common) continue;
    if (found.uploads.size() + prefixes.size() == std::min<std::uint64_t>(*most, 1000)) {
      found.next_key = found.uploads.empty() ? key : found.uploads.back().key;
      if (!prefixes.empty()) found.next_key = std::max(found.next_key, prefixes.back());
      if (!found.uploads.empty()) found.next_id = found.uploads.back().id;
      break;
    }
    if (common.empty())
      found.uploads.push_back(it);
    else
      prefixes.push_back(common);
  }
  return found;
}

std::string list_parts(const Request& request, const UploadChecksum& checksum,
                       const std::vector<PartRow>& parts, int most, bool truncated) {
  Xml xml;
  xml.text("Bucket", request.bucket);
  xml.text("Key", request.key);
  xml.text("UploadId", request.parameter("uploadId"));
  write_owner(xml, "Initiator");
  write_owner(xml);
  xml.text("StorageClass", "STANDARD");
  write_checksum(xml, checksum);
  xml.text("PartNumberMarker", request.parameter("part-number-marker", "0"));
  xml.value("NextPartNumberMarker", parts.empty() ? 0 : parts.back().number);
  xml.value("MaxParts", most);
  xml.value("IsTruncated", truncated);
  for (const PartRow& part : parts) {
    xml.element("Part", [&] {
      xml.value("PartNumber", part.number);
      xml.text("LastModified", xml_time(part.modified));
      xml.text("ETag", quoted(part.etag));
      xml.value("Size", part.size);
      write_checksums(xml, part.checksums);
    });
  }
  return document("ListPartsResult", xml);
}

std::string upload_created(const Request& request, const std::string& id) {
  Xml xml;
  xml.text("Bucket", request.bucket);
  xml.text("Key", request.key);
  xml.text("UploadId", id);
  return document("InitiateMultipartUploadResult", xml);
}

std::string upload_completed(const Request& request, const std::string& where,
                             const std::string& etag, const Checksums& checksums, bool composite) {
  Xml xml;
  xml.text("Location", where);
  xml.text("Bucket", request.bucket);
  xml.text("Key", request.key);
  xml.text("ETag", quoted(etag));
  write_checksums(xml, checksums);
  xml.text("ChecksumType", type_name(composite));
  return document("CompleteMultipartUploadResult", xml);
}

std::string copied(const Request& request, const std::string& etag, WallTime modified,
                   const Checksums& checksums) {
  Xml xml;
  xml.text("LastModified", xml_time(modified));
  xml.text("ETag", quoted(etag));
  write_checksums(xml, checksums);
  if (request.operation != Operation::CopyObject) return document("CopyPartResult", xml);
  xml.text("ChecksumType", type_name(false));
  return document("CopyObjectResult", xml);
}

std::string deleted(const std::vector<Deletion>& deletions, bool quiet) {
  Xml xml;
  for (const Deletion& it : deletions) {
    if (!it.error && quiet) continue;
    xml.element(it.error ? "Error" : "Deleted", [&] {
      xml.text("Key", it.key);
      if (!it.error) return;
      xml.text("Code", it.error->code);
      xml.text("Message", it.error->message);
    });
  }
  return document("DeleteResult", xml);
}

Expected<std::vector<CompletedPart>> parse_completion(std::string_view text) {
  pugi::xml_document parsed;
  if (!load(parsed, text, "CompleteMultipartUpload")) return malformed();
  std::vector<CompletedPart> parts;
  for (const auto node : parsed.document_element().children("Part")) {
    CompletedPart part{node.child("PartNumber").text().as_int(), node.child_value("ETag")};
    if (part.etag.size() >= 2 && part.etag.front() == '"' && part.etag.back() == '"')
      part.etag = part.etag.substr(1, part.etag.size() - 2);
    if (part.number < 1 || part.etag.empty()) return malformed();
    constexpr std::string_view prefix = "Checksum";
    for (const auto child : node.children()) {
      const std::string_view name = child.name();
      if (!name.starts_with(prefix)) continue;
      if (const auto algorithm = checksum_algorithm(name.substr(prefix.size())))
        part.checksums[*algorithm] = child.child_value();
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return malformed();
  return parts;
}

Expected<DeleteList> parse_deletion(std::string_view text) {
  constexpr std::size_t most = 1000;
  pugi::xml_document parsed;
  if (!load(parsed, text, "Delete")) return malformed();
  DeleteList list;
  list.quiet = parsed.document_element().child("Quiet").text().as_bool();
  for (const auto node : parsed.document_element().children("Object")) {
    list.items.push_back({node.child_value("Key"), node.child_value("ETag")});
    if (list.items.back().key.empty() || list.items.size() > most) return malformed();
  }
  if (list.items.empty()) return malformed();
  return list;
}

Expected<std::string> parse_location(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return std::string();
  pugi::xml_document parsed;
  if (!load(parsed, text, "CreateBucketConfiguration")) return malformed();
  return std::string(parsed.document_element().child_value("LocationConstraint"));
}

}  // namespace spotter::world::s3
