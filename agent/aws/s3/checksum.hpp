// The checksum that S3 keeps with an object, and the same of what has come.
// Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
#pragma once

#include <memory>

#include "agent/aws/s3/values.hpp"

namespace spotter::s3 {

struct Checksum {
  std::string_view header{};  // empty: S3 has none, or one that is not known here
  std::string value{};        // binary
  // The number of parts of a multipart upload whose checksum is one of its parts' checksums
  // ("...-3"). 0: the checksum is of the bytes themselves.
  std::uint64_t parts = 0;
  // The size of each part but the last. 0: not known, and then nothing can be compared.
  std::uint64_t part_bytes = 0;

  bool lacks_borders() const { return parts > 1 && part_bytes == 0; }
};

// Reads the answer to a request with `x-amz-checksum-mode: ENABLED`.
Checksum checksum_of(const Answer& answer);

// Learns from a HEAD of the object's first part (`partNumber=1`) where the others begin, if all but
// the last are as large as the first; every client but a hand-written one makes them so.
void learn_borders(Checksum& checksum, const Answer& first_part, std::uint64_t object_bytes);

// Big-endian, as S3's headers have it before base64.
std::string bytes_of(std::uint32_t sum);

class Digest {
 public:
  explicit Digest(Checksum expected);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void add(std::string_view bytes);  // in order
  // False: these were other bytes. To be asked once, at the end. Always true without a checksum,
  // and of a checksum of parts whose borders are not known.
  bool matches();

  class Sum;  // of one kind, private

 private:
  void end_part();

  Checksum expected_;
  std::unique_ptr<Sum> sum_;    // null: nothing is compared
  std::unique_ptr<Sum> outer_;  // of the parts' sums
  std::uint64_t in_part_ = 0;
  std::uint64_t ended_ = 0;  // parts
};

}  // namespace spotter::s3
