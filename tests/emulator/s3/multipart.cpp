// The operations of uploads in parts.
#include <algorithm>
#include <numeric>

#include "tests/emulator/form.hpp"
#include "tests/emulator/s3/exchange.hpp"
#include "tests/emulator/s3/uploads.hpp"
#include "tests/world/s3/conditions.hpp"

namespace spotter::emulator::s3 {
namespace {

constexpr int most_listed = 1000;

world::ApiError broken_disk() {
  return {"InternalError", "The emulator's disk does not take the object.", 500};
}

// What the request says of the object that it makes.
std::optional<world::ApiError> refuse_completion(const api::Request& request,
                                                 const api::Completion& completion,
                                                 bool full_object) {
  const std::string size = request.header("x-amz-mp-object-size");
  const auto whole =
      std::accumulate(completion.sizes.begin(), completion.sizes.end(), std::uint64_t{0});
  if (!size.empty() && size != std::to_string(whole))
    return world::ApiError{"InvalidRequest",
                           "The provided 'x-amz-mp-object-size' header value " + size +
                               " does not match what was computed: " + std::to_string(whole)};
  const std::string type = request.header("x-amz-checksum-type");
  if (const std::string its = api::type_name(!full_object); !type.empty() && type != its)
    return world::ApiError{"InvalidRequest",
                           "The upload was created using the " + its +
                               " checksum mode. The complete request must use the same checksum "
                               "mode."};
  return std::nullopt;
}

}  // namespace

Answer Exchange::create_upload() {
  MultipartUpload upload{"", request().key, now(), described(request())};
  auto& [algorithm, full_object] = upload.checksum;
  algorithm = api::checksum_algorithm(request().header("x-amz-checksum-algorithm"));
  // https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html: CRC64NVME
  // is of the whole object only
  const std::string type = request().header("x-amz-checksum-type");
  full_object = type == "FULL_OBJECT" || !algorithm || algorithm == api::Algorithm::Crc64Nvme;
  const bool of_sha = algorithm == api::Algorithm::Sha1 || algorithm == api::Algorithm::Sha256;
  if ((!type.empty() && type != "FULL_OBJECT" && type != "COMPOSITE") ||
      (!type.empty() && !algorithm) || (type == "FULL_OBJECT" && of_sha) ||
      (type == "COMPOSITE" && algorithm == api::Algorithm::Crc64Nvme))
    return refuse("InvalidRequest", "The " + type + " checksum type cannot be used with the " +
                                        request().header("x-amz-checksum-algorithm") +
                                        " checksum algorithm.");
  const auto id = uploads().create(request().bucket, upload);
  if (!id) return refuse(id.error());
  HttpResponse response = document(api::upload_created(request(), *id));
  if (algorithm) {
    response.headers.emplace_back("x-amz-checksum-algorithm", api::checksum_name(*algorithm));
    response.headers.emplace_back("x-amz-checksum-type", api::type_name(!full_object));
  }
  return response;
}

Answer Exchange::copy_part() {
  const std::string id = request().parameter("uploadId");
  const auto number = api::part_number(request());
  if (!number) return refuse(number.error());
  const auto upload = uploads().find(request().bucket, request().key, id);
  if (!upload) return refuse(upload.error());
  const auto from = copy_source();
  if (!from) return tl::unexpected(from.error());
  const std::string range = request().header("x-amz-copy-source-range");
  const auto part = api::copy_range(range, from->identity.size);
  if (!part) return refuse(part.error());
  const auto draft = store().draft();
  if (!draft || !draft->append_file(*from->descriptor, part->first, part->size))
    return refuse(broken_disk());
  Attributes attributes{api::hexadecimal(digest_of(api::Algorithm::Md5, draft->descriptor())), ""};
  if (const auto algorithm = upload->checksum.algorithm)
    attributes.checksums = {{*algorithm, api::base64(digest_of(*algorithm, draft->descriptor()))}};
  const auto kept = uploads().put(request().bucket, id, *number, *draft, attributes);
  if (!kept) return refuse(kept.error());
  return document(api::copied(request(), attributes.etag, now(), attributes.checksums));
}

Answer Exchange::complete_upload() {
  const std::string id = request().parameter("uploadId");
  const auto upload = uploads().find(request().bucket, request().key, id);
  if (!upload) return refuse(upload.error());
  const auto asked = api::parse_completion(body());
  if (!asked) return refuse(asked.error());
  const auto [algorithm, full_object] = upload->checksum;
  const auto completion =
      api::complete(*asked, uploads().parts(request().bucket, id), upload->checksum);
  if (!completion) return refuse(completion.error());
  if (auto wrong = refuse_completion(request(), *completion, full_object)) return refuse(*wrong);
  const auto draft = uploads().joined(request().bucket, id, *completion);
  if (!draft) return refuse(broken_disk());
  Attributes attributes = upload->attributes;
  attributes.etag = completion->etag;
  attributes.part_sizes = completion->sizes;
  attributes.checksums = completion->checksums;
  attributes.composite = !attributes.checksums.empty();
  if (const auto of_all = algorithm.value_or(default_checksum); !attributes.composite)
    attributes.checksums = {{of_all, api::base64(digest_of(of_all, draft->descriptor()))}};
  for (const auto& [algorithm, value] : attributes.checksums)
    if (const auto given = request().header(api::checksum_header_of(algorithm));
        !given.empty() && given != value)
      return refuse("BadDigest", "The " + std::string(api::checksum_name(algorithm)) +
                                     " you specified did not match the calculated checksum.");
  const auto made = publish(*draft, attributes);
  if (!made) return refuse(made.error());
  uploads().remove(request().bucket, id);
  const std::string where = "http://" + request().header("host") + percent_encode(resource(), "/");
  return document(api::upload_completed(request(), where, attributes.etag, attributes.checksums,
                                        attributes.composite));
}

Answer Exchange::abort_upload() {
  const std::string id = request().parameter("uploadId");
  if (const auto upload = uploads().find(request().bucket, request().key, id); !upload)
    return refuse(upload.error());
  uploads().remove(request().bucket, id);
  return HttpResponse{204, "", ""};
}

Answer Exchange::list_parts() {
  const std::string id = request().parameter("uploadId");
  const auto upload = uploads().find(request().bucket, request().key, id);
  if (!upload) return refuse(upload.error());
  const auto most = api::parse_count(request(), "max-parts", most_listed);
  const auto after = api::parse_count(request(), "part-number-marker", 0);
  if (!most || !after) return refuse(most ? after.error() : most.error());
  const auto limit = std::min<std::uint64_t>(*most, most_listed);
  std::vector<api::PartRow> rows;
  bool truncated = false;
  for (const auto& [number, row] : uploads().parts(request().bucket, id)) {
    if (static_cast<std::uint64_t>(number) <= *after) continue;
    truncated = rows.size() == limit;
    if (truncated) break;
    rows.push_back(row);
  }
  return document(
      api::list_parts(request(), upload->checksum, rows, static_cast<int>(limit), truncated));
}

Answer Exchange::list_uploads() {
  std::vector<api::UploadRow> rows;
  for (const MultipartUpload& upload : uploads().all(request().bucket))
    rows.push_back({upload.key, upload.id, upload.initiated, upload.checksum});
  const auto listing = api::select_uploads(request(), rows);
  if (!listing) return refuse(listing.error());
  return document(api::list_uploads(request(), *listing));
}

}  // namespace spotter::emulator::s3
