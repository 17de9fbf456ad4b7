#include "tests/emulator/s3/upload.hpp"

#include "tests/emulator/s3/uploads.hpp"
#include "tests/world/s3/members.hpp"

namespace spotter::emulator::s3 {
namespace {

world::ApiError bad_digest(const std::string& what) {
  return {"BadDigest", "The " + what + " you specified did not match the calculated checksum.",
          400};
}

}  // namespace

Upload::Upload(Service& service, Incoming incoming)
    : Exchange(service, std::move(incoming)),
      given_(api::given_checksum(request())),
      algorithm_(given_.value_or(default_checksum)),
      digest_(api::make_digest(algorithm_)) {
  draft_ = store().draft();
  broken_ = !draft_;
  md5_ = api::make_digest(api::Algorithm::Md5);
  const std::string& hash = signer().payload_hash;
  if (hash.size() == 64) payload_ = api::make_digest(api::Algorithm::Sha256);
  if (hash.starts_with("STREAMING-")) {
    const bool is_signed = hash.starts_with("STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    decoder_ = std::make_unique<api::ChunkDecoder>([this](std::string_view bytes) { keep(bytes); },
                                                   is_signed ? signer().chunks : api::ChunkSigner{},
                                                   signer().seed);
  }
}

void Upload::take(std::string_view bytes) {
  if (payload_) payload_->take(bytes);
  if (decoder_)
    decoder_->take(bytes);
  else
    keep(bytes);
}

void Upload::keep(std::string_view bytes) {
  size_ += bytes.size();
  if (broken_ || !draft_->append(bytes)) {
    broken_ = true;
    return;
  }
  md5_->take(bytes);
  digest_->take(bytes);
}

std::optional<world::ApiError> Upload::check_length() const {
  const std::string announced = request().header("x-amz-decoded-content-length");
  if (announced.empty() || announced == std::to_string(size_)) return std::nullopt;
  return world::ApiError{
      "IncompleteBody",
      "You did not provide the number of bytes specified by the Content-Length HTTP header", 400};
}

std::optional<world::ApiError> Upload::check_checksum() {
  checksum_ = api::base64(digest_->finish());
  if (!given_) return std::nullopt;
  const std::string header = api::checksum_header_of(*given_);
  std::string given = request().header(header);
  if (request().header("x-amz-trailer") == header) {
    if (!decoder_ || !decoder_->trailers().contains(header))
      return world::ApiError{"MalformedTrailerError",
                             "The request contained trailing data that was not well-formed or did "
                             "not conform to our published schema."};
    given = decoder_->trailers().at(header);
    if (!api::is_checksum(*given_, given))
      return world::ApiError{"InvalidRequest",
                             "Value for " + header + " trailing header is invalid."};
  }
  if (given == checksum_) return std::nullopt;
  return bad_digest(std::string(api::checksum_name(*given_)));
}

std::optional<world::ApiError> Upload::check() {
  if (broken_)
    return world::ApiError{"InternalError", "The emulator's disk does not take the object.", 500};
  if (decoder_)
    if (auto wrong = decoder_->finish()) return wrong;
  if (payload_ && api::hexadecimal(payload_->finish()) != signer().payload_hash)
    return world::ApiError{
        "XAmzContentSHA256Mismatch",
        "The provided 'x-amz-content-sha256' header does not match what was computed.", 400};
  md5_raw_ = md5_->finish();
  const std::string given = request().header("content-md5");
  if (!given.empty() && given != api::base64(md5_raw_)) {
    const auto raw = api::parse_base64(given);
    if (!raw || raw->size() != md5_raw_.size())
      return world::ApiError{"InvalidDigest", "The Content-MD5 you specified was invalid.", 400};
    return world::ApiError{"BadDigest",
                           "The Content-MD5 you specified did not match what we received.", 400};
  }
  if (auto wrong = check_length()) return wrong;
  return check_checksum();
}

Expected<void> Upload::keep_part(const Attributes& attributes) {
  const std::string id = request().parameter("uploadId");
  const auto number = api::part_number(request());
  if (!number) return tl::unexpected(number.error());
  const auto upload = uploads().find(request().bucket, request().key, id);
  if (!upload) return tl::unexpected(upload.error());
  if (auto wrong = api::refuse_part(upload->checksum, given_)) return tl::unexpected(*wrong);
  return uploads().put(request().bucket, id, *number, *draft_, attributes);
}

Answer Upload::answer() {
  if (auto wrong = check()) return refuse(*wrong);
  Attributes attributes = described(request());
  attributes.etag = api::hexadecimal(md5_raw_);
  if (given_ || request().operation == api::Operation::PutObject)
    attributes.checksums = {{algorithm_, checksum_}};
  HttpResponse response{200, "", ""};
  response.headers.emplace_back("ETag", in_quotes(attributes.etag));
  for (const auto& [algorithm, value] : attributes.checksums)
    response.headers.emplace_back(api::checksum_header_of(algorithm), value);
  if (request().operation == api::Operation::UploadPart) {
    const auto kept = keep_part(attributes);
    if (!kept) return refuse(kept.error());
    return response;
  }
  response.headers.emplace_back("x-amz-checksum-type", api::type_name(false));
  const auto made = publish(*draft_, attributes);
  if (!made) return refuse(made.error());
  return response;
}

}  // namespace spotter::emulator::s3
