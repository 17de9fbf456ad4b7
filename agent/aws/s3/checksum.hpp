// The checksum that S3 keeps with an object, and the same of what has come.
// Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "agent/aws/s3/values.hpp"

namespace spotter::s3 {

struct Checksum {
  enum class Kind : std::uint8_t {
    None,  // S3 has none of the whole object, or one that is not known here
    Crc32c,
    Crc32,
    Sha256,
  };
  Kind kind = Kind::None;
  std::string value;  // binary
};

// Of an answer to a request with `x-amz-checksum-mode: ENABLED`. A checksum of checksums (a
// multipart upload's, "...-3") counts as none: only the parts' borders would tell.
Checksum checksum_of(const Answer& answer);

// Big-endian, as S3's headers have it before base64.
std::string bytes_of(std::uint32_t sum);

class Digest {
 public:
  explicit Digest(Checksum expected);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void add(std::string_view bytes);  // in order
  // False: these were other bytes. To be asked once, at the end. Always true without a checksum.
  bool matches();

 private:
  struct Sha;
  Checksum expected_;
  std::uint32_t crc_ = 0;
  std::unique_ptr<Sha> sha_;
};

}  // namespace spotter::s3
