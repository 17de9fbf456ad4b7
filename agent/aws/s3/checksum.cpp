#include "agent/aws/s3/checksum.hpp"

#include <openssl/evp.h>
#include <zlib.h>

#include <array>

#include "agent/aws/s3/crc32c.hpp"

namespace spotter::s3 {
namespace {

using ChecksumKind = Checksum::Kind;

struct Known {
  std::string_view header;
  ChecksumKind kind;
  std::size_t size;
};
constexpr std::array<Known, 3> known{Known{"x-amz-checksum-crc32c", ChecksumKind::Crc32c, 4},
                                     Known{"x-amz-checksum-sha256", ChecksumKind::Sha256, 32},
                                     Known{"x-amz-checksum-crc32", ChecksumKind::Crc32, 4}};

}  // namespace

Checksum checksum_of(const Answer& answer) {
  if (answer.header("x-amz-checksum-type") == "COMPOSITE") return {};
  for (const auto& [header, kind, size] : known) {
    const auto text = answer.header(header);
    if (text.empty()) continue;
    const auto value = wire::from_base64(text);
    if (value && value->size() == size) return {kind, *value};
  }
  return {};
}

std::string bytes_of(std::uint32_t sum) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(sum >> shift & 255);
  return bytes;
}

struct Digest::Sha {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  Sha() { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }
  ~Sha() { EVP_MD_CTX_free(context); }
  Sha(const Sha&) = delete;
  Sha& operator=(const Sha&) = delete;
};

Digest::Digest(Checksum expected) : expected_(std::move(expected)) {
  if (expected_.kind == ChecksumKind::Sha256) sha_ = std::make_unique<Sha>();
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::add(std::string_view bytes) {
  if (expected_.kind == ChecksumKind::Crc32c) crc_ = crc32c(crc_, bytes);
  if (expected_.kind == ChecksumKind::Crc32) {
    const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
    crc_ = static_cast<std::uint32_t>(::crc32_z(crc_, data, bytes.size()));
  }
  if (sha_) EVP_DigestUpdate(sha_->context, bytes.data(), bytes.size());
}

bool Digest::matches() {
  if (expected_.kind == ChecksumKind::None) return true;
  if (!sha_) return bytes_of(crc_) == expected_.value;
  std::array<unsigned char, 32> sum{};
  EVP_DigestFinal_ex(sha_->context, sum.data(), nullptr);
  return std::string_view(reinterpret_cast<const char*>(sum.data()), sum.size()) == expected_.value;
}

}  // namespace spotter::s3
