#include "tests/emulator/s3/upload.hpp"

#include "tests/emulator/s3/uploads.hpp"

namespace spotter::emulator::s3 {
namespace {

world::ApiError bad_digest(const std::string& what) {
  return {"BadDigest", "The " + what + " you specified did not match the calculated checksum.",
          400};
}

}  // namespace

Upload::Upload(Service& service, Incoming incoming) : Exchange(service, std::move(incoming)) {
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
  expect_checksums();
}

// Named by their header, by the trailer that brings it, or only wished for.
void Upload::expect_checksums() {
  const auto expect = [this](std::optional<api::Algorithm> algorithm) {
    if (algorithm) digests_.emplace(*algorithm, api::make_digest(*algorithm));
  };
  for (const auto& [name, value] : request().headers) expect(api::checksum_header(name));
  expect(api::checksum_header(request().header("x-amz-trailer")));
  expect(api::checksum_algorithm(request().header("x-amz-sdk-checksum-algorithm")));
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
  for (auto& [algorithm, digest] : digests_) digest->take(bytes);
}

std::optional<world::ApiError> Upload::check_length() const {
  const std::string announced = request().header("x-amz-decoded-content-length");
  if (announced.empty() || announced == std::to_string(size_)) return std::nullopt;
  return world::ApiError{
      "IncompleteBody",
      "You did not provide the number of bytes specified by the Content-Length HTTP header", 400};
}

std::optional<world::ApiError> Upload::check_checksums() {
  for (auto& [algorithm, digest] : digests_) {
    const std::string header = api::checksum_header_of(algorithm);
    std::string given = request().header(header);
    if (decoder_ && decoder_->trailers().contains(header)) given = decoder_->trailers().at(header);
    checksums_[algorithm] = api::base64(digest->finish());
    if (!given.empty() && given != checksums_[algorithm])
      return bad_digest(std::string(api::checksum_name(algorithm)));
  }
  return std::nullopt;
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
  return check_checksums();
}

Expected<void> Upload::keep_part(const Attributes& attributes) {
  const std::string id = request().parameter("uploadId");
  const auto number = api::part_number(request());
  if (!number) return tl::unexpected(number.error());
  const auto upload = uploads().find(request().bucket, request().key, id);
  if (!upload) return tl::unexpected(upload.error());
  return uploads().put(request().bucket, id, *number, *draft_, attributes);
}

Answer Upload::answer() {
  if (auto wrong = check()) return refuse(*wrong);
  Attributes attributes = described(request());
  attributes.etag = api::hexadecimal(md5_raw_);
  attributes.checksums = checksums_;
  HttpResponse response{200, "", ""};
  response.headers.emplace_back("ETag", in_quotes(attributes.etag));
  for (const auto& [algorithm, value] : checksums_)
    response.headers.emplace_back(api::checksum_header_of(algorithm), value);
  if (request().operation == api::Operation::UploadPart) {
    const auto kept = keep_part(attributes);
    if (!kept) return refuse(kept.error());
    return response;
  }
  const auto made = publish(*draft_, attributes);
  if (!made) return refuse(made.error());
  return response;
}

}  // namespace spotter::emulator::s3
