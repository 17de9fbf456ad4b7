// Content-Encoding aws-chunked, decoded as it comes: a signature for each chunk, checksums behind
// the last. Pure.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html,
// sigv4-streaming-trailers.html
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tests/world/s3/digest.hpp"
#include "tests/world/s3/request.hpp"

namespace spotter::world::s3 {

// Signs a chunk ("AWS4-HMAC-SHA256-PAYLOAD") or the trailer ("AWS4-HMAC-SHA256-TRAILER") after what
// was signed before it. `hash`: of the chunk's or trailer's bytes, hexadecimal.
using ChunkSigner = std::function<std::string(
    std::string_view algorithm, const std::string& previous, const std::string& hash)>;

class ChunkDecoder {
 public:
  using Output = std::function<void(std::string_view bytes)>;
  // Without a signer (STREAMING-UNSIGNED-PAYLOAD-TRAILER) signatures are not looked at. `seed`: the
  // request's own signature.
  explicit ChunkDecoder(Output output, ChunkSigner signer = {}, std::string seed = {});

  void take(std::string_view bytes);
  // The first thing that was wrong: IncompleteBody, InvalidRequest, SignatureDoesNotMatch.
  std::optional<ApiError> finish();
  std::uint64_t size() const { return size_; }          // of the content so far
  const Fields& trailers() const { return trailers_; }  // names in lower case

 private:
  enum class Expecting : std::uint8_t { Header, Data, EndOfData, Trailer, Nothing };

  void on_line(std::string line);
  void on_header(const std::string& line);
  void on_trailer(const std::string& line);
  void check_signature(std::string_view algorithm, const std::string& hash,
                       const std::string& given);
  void end_chunk();
  void fail(std::string code, std::string message, int status = 400);

  Output output_;
  ChunkSigner signer_;
  std::string previous_;
  Expecting expecting_ = Expecting::Header;
  std::string line_;
  std::uint64_t left_ = 0;
  std::uint64_t size_ = 0;
  std::string signature_;  // of the chunk that is being read
  std::unique_ptr<Digest> hash_;
  std::string signed_trailer_;
  Fields trailers_;
  std::optional<ApiError> error_;
};

}  // namespace spotter::world::s3
