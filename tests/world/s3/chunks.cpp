#include "tests/world/s3/chunks.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace spotter::world::s3 {
namespace {

constexpr std::size_t longest_line = 8192;
constexpr std::string_view payload_algorithm = "AWS4-HMAC-SHA256-PAYLOAD";
constexpr std::string_view trailer_algorithm = "AWS4-HMAC-SHA256-TRAILER";
constexpr std::string_view trailer_signature = "x-amz-trailer-signature";

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return std::string(text);
}

}  // namespace

ChunkDecoder::ChunkDecoder(Output output, ChunkSigner signer, std::string seed)
    : output_(std::move(output)), signer_(std::move(signer)), previous_(std::move(seed)) {}

void ChunkDecoder::fail(std::string code, std::string message, int status) {
  if (!error_) error_ = ApiError{std::move(code), std::move(message), status};
}

void ChunkDecoder::take(std::string_view bytes) {
  while (!bytes.empty() && !error_) {
    if (expecting_ == Expecting::Data) {
      const std::string_view data = bytes.substr(0, std::min<std::uint64_t>(left_, bytes.size()));
      bytes.remove_prefix(data.size());
      left_ -= data.size();
      size_ += data.size();
      if (hash_) hash_->take(data);
      output_(data);
      if (left_ == 0) end_chunk();
      continue;
    }
    const auto end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() > longest_line) return fail("InvalidRequest", "A chunk's header is too long");
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    on_line(std::exchange(line_, {}));
  }
}

void ChunkDecoder::on_line(std::string line) {
  switch (expecting_) {
    case Expecting::Header:
      return on_header(line);
    case Expecting::EndOfData:
      if (!line.empty()) fail("InvalidRequest", "A chunk is longer than it says");
      expecting_ = Expecting::Header;
      return;
    case Expecting::Trailer:
      return on_trailer(line);
    case Expecting::Data:
    case Expecting::Nothing:
      if (!line.empty()) fail("InvalidRequest", "Bytes follow the last chunk");
  }
}

void ChunkDecoder::on_header(const std::string& line) {
  const auto end = std::min(line.find(';'), line.size());
  const auto [rest, failed] = std::from_chars(line.data(), line.data() + end, left_, 16);
  if (failed != std::errc{} || rest != line.data() + end || end == 0)
    return fail("InvalidRequest", "A chunk's size is not a number");
  constexpr std::string_view name = ";chunk-signature=";
  signature_ = line.compare(end, name.size(), name) == 0 ? line.substr(end + name.size()) : "";
  if (signer_) hash_ = make_digest(Algorithm::Sha256);
  if (left_ > 0) {
    expecting_ = Expecting::Data;
    return;
  }
  end_chunk();
  expecting_ = Expecting::Trailer;
}

void ChunkDecoder::end_chunk() {
  if (signer_) check_signature(payload_algorithm, hexadecimal(hash_->finish()), signature_);
  expecting_ = Expecting::EndOfData;
}

void ChunkDecoder::check_signature(std::string_view algorithm, const std::string& hash,
                                   const std::string& given) {
  previous_ = signer_(algorithm, previous_, hash);
  if (previous_ != given)
    fail("SignatureDoesNotMatch",
         "The chunk signature we calculated does not match the signature you provided.", 403);
}

void ChunkDecoder::on_trailer(const std::string& line) {
  const bool none = signed_trailer_.empty() && trailers_.empty();
  if (line.empty()) {
    if (signer_ && !none && !trailers_.contains(std::string(trailer_signature)))
      fail("SignatureDoesNotMatch", "The trailer is not signed.", 403);
    expecting_ = Expecting::Nothing;
    return;
  }
  const auto colon = line.find(':');
  if (colon == std::string::npos) return fail("InvalidRequest", "A trailer has no ':'");
  std::string name = line.substr(0, colon);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string value = trimmed(std::string_view(line).substr(colon + 1));
  if (name == trailer_signature && signer_) {
    const std::string hash = hexadecimal(digest(Algorithm::Sha256, signed_trailer_));
    check_signature(trailer_algorithm, hash, value);
  }
  if (name != trailer_signature) signed_trailer_ += name + ":" + value + "\n";
  trailers_[name] = value;
}

std::optional<ApiError> ChunkDecoder::finish() {
  if (!error_ && expecting_ != Expecting::Nothing && expecting_ != Expecting::Trailer)
    fail("IncompleteBody",
         "You did not provide the number of bytes specified by the Content-Length HTTP header");
  if (!error_ && expecting_ == Expecting::Trailer && signer_ && !trailers_.empty() &&
      !trailers_.contains(std::string(trailer_signature)))
    fail("SignatureDoesNotMatch", "The trailer is not signed.", 403);
  return error_;
}

}  // namespace spotter::world::s3
