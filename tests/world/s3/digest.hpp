// The checksums that S3 knows, over bytes that come in pieces. Pure.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace spotter::world::s3 {

enum class Algorithm : std::uint8_t { Md5, Sha1, Sha256, Crc32, Crc32c, Crc64Nvme };

class Digest {
 public:
  virtual ~Digest() = default;
  virtual void take(std::string_view bytes) = 0;
  virtual std::string finish() = 0;  // raw bytes, big endian; once
};
std::unique_ptr<Digest> make_digest(Algorithm algorithm);
std::string digest(Algorithm algorithm, std::string_view bytes);

// "CRC32C", as x-amz-checksum-algorithm says it and x-amz-checksum-crc32c in lower case; not MD5.
std::optional<Algorithm> checksum_algorithm(std::string_view name);
// "x-amz-checksum-crc32c"; its algorithm.
std::optional<Algorithm> checksum_header(std::string_view header);
std::string_view checksum_name(Algorithm algorithm);              // "CRC32C"
std::string checksum_header_of(Algorithm algorithm);              // "x-amz-checksum-crc32c"
bool is_checksum(Algorithm algorithm, const std::string& value);  // of its length, in base64

std::string hexadecimal(std::string_view bytes);
std::string base64(std::string_view bytes);
std::optional<std::string> parse_base64(const std::string& text);

}  // namespace spotter::world::s3
