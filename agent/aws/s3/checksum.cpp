#include "agent/aws/s3/checksum.hpp"

#include <openssl/evp.h>
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "agent/aws/s3/crc.hpp"

namespace spotter::s3 {
namespace {

using ChecksumKind = Checksum::Kind;

struct Known {
  std::string_view header;
  ChecksumKind kind;
  std::size_t size;
};
// An object has one of them; its MD5, if it has that, beside another.
constexpr std::array known{Known{"x-amz-checksum-crc64nvme", ChecksumKind::Crc64Nvme, 8},
                           Known{"x-amz-checksum-crc32c", ChecksumKind::Crc32c, 4},
                           Known{"x-amz-checksum-crc32", ChecksumKind::Crc32, 4},
                           Known{"x-amz-checksum-xxhash3", ChecksumKind::Xxh3, 8},
                           Known{"x-amz-checksum-xxhash64", ChecksumKind::Xxh64, 8},
                           Known{"x-amz-checksum-xxhash128", ChecksumKind::Xxh128, 16},
                           Known{"x-amz-checksum-sha256", ChecksumKind::Sha256, 32},
                           Known{"x-amz-checksum-sha1", ChecksumKind::Sha1, 20},
                           Known{"x-amz-checksum-sha512", ChecksumKind::Sha512, 64},
                           Known{"x-amz-checksum-md5", ChecksumKind::Md5, 16}};

std::string big_endian(std::uint64_t sum, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    text += static_cast<char>(sum >> shift & 255);
  return text;
}

}  // namespace

// A sum over bytes that come piece by piece.
class Digest::Sum {
 public:
  virtual ~Sum() = default;
  virtual void add(std::string_view bytes) = 0;
  virtual std::string take() = 0;  // and begins again
};

namespace {

std::uint32_t crc32_of(std::uint32_t before, std::string_view bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  return static_cast<std::uint32_t>(::crc32_z(before, data, bytes.size()));
}

template <auto go_on, typename Word>
class Crc final : public Digest::Sum {
 public:
  void add(std::string_view bytes) override { crc_ = go_on(crc_, bytes); }
  std::string take() override { return big_endian(std::exchange(crc_, 0), sizeof crc_); }

 private:
  Word crc_ = 0;
};

class Evp final : public Digest::Sum {
 public:
  explicit Evp(const EVP_MD* which) : which_(which) {
    EVP_DigestInit_ex(context_, which_, nullptr);
  }
  ~Evp() override { EVP_MD_CTX_free(context_); }
  Evp(const Evp&) = delete;
  Evp& operator=(const Evp&) = delete;
  void add(std::string_view bytes) override {
    EVP_DigestUpdate(context_, bytes.data(), bytes.size());
  }
  std::string take() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_, sum.data(), &size);
    EVP_DigestInit_ex(context_, which_, nullptr);
    return {reinterpret_cast<const char*>(sum.data()), size};
  }

 private:
  const EVP_MD* which_;
  EVP_MD_CTX* context_ = EVP_MD_CTX_new();
};

class Xxh64 final : public Digest::Sum {
 public:
  Xxh64() { XXH64_reset(state_, 0); }
  ~Xxh64() override { XXH64_freeState(state_); }
  Xxh64(const Xxh64&) = delete;
  Xxh64& operator=(const Xxh64&) = delete;
  void add(std::string_view bytes) override { XXH64_update(state_, bytes.data(), bytes.size()); }
  std::string take() override {
    const auto sum = XXH64_digest(state_);
    XXH64_reset(state_, 0);
    return big_endian(sum, 8);
  }

 private:
  XXH64_state_t* state_ = XXH64_createState();
};

// XXH3 of 64 or 128 bits.
class Xxh3 final : public Digest::Sum {
 public:
  explicit Xxh3(bool wide) : wide_(wide) { reset(); }
  ~Xxh3() override { XXH3_freeState(state_); }
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void add(std::string_view bytes) override {
    if (wide_)
      XXH3_128bits_update(state_, bytes.data(), bytes.size());
    else
      XXH3_64bits_update(state_, bytes.data(), bytes.size());
  }
  std::string take() override {
    const auto sum = wide_ ? XXH3_128bits_digest(state_)
                           : XXH128_hash_t{.low64 = XXH3_64bits_digest(state_), .high64 = 0};
    reset();
    return (wide_ ? big_endian(sum.high64, 8) : "") + big_endian(sum.low64, 8);
  }

 private:
  void reset() {
    if (wide_)
      XXH3_128bits_reset(state_);
    else
      XXH3_64bits_reset(state_);
  }
  bool wide_;
  XXH3_state_t* state_ = XXH3_createState();
};

std::unique_ptr<Digest::Sum> sum_of(ChecksumKind kind) {
  switch (kind) {
    case ChecksumKind::None:
      break;
    case ChecksumKind::Crc32c:
      return std::make_unique<Crc<&crc32c, std::uint32_t>>();
    case ChecksumKind::Crc32:
      return std::make_unique<Crc<&crc32_of, std::uint32_t>>();
    case ChecksumKind::Crc64Nvme:
      return std::make_unique<Crc<&crc64nvme, std::uint64_t>>();
    case ChecksumKind::Xxh3:
      return std::make_unique<Xxh3>(false);
    case ChecksumKind::Xxh64:
      return std::make_unique<Xxh64>();
    case ChecksumKind::Xxh128:
      return std::make_unique<Xxh3>(true);
    case ChecksumKind::Md5:
      return std::make_unique<Evp>(EVP_md5());
    case ChecksumKind::Sha1:
      return std::make_unique<Evp>(EVP_sha1());
    case ChecksumKind::Sha256:
      return std::make_unique<Evp>(EVP_sha256());
    case ChecksumKind::Sha512:
      return std::make_unique<Evp>(EVP_sha512());
  }
  return nullptr;
}

}  // namespace

Checksum checksum_of(const Answer& answer) {
  for (const auto& [header, kind, size] : known) {
    auto text = answer.header(header);
    const auto dash = text.find('-');  // base64 has none
    Checksum checksum{.kind = kind};
    if (dash != text.npos) {
      const auto parts = wire::parse_count(text.substr(dash + 1));
      checksum.parts = parts.value_or(0);
      text = text.substr(0, dash);
      if (checksum.parts == 0) continue;
    } else if (answer.header("x-amz-checksum-type") == "COMPOSITE") {
      continue;  // of how many parts nobody says
    }
    auto value = text.empty() ? std::nullopt : wire::from_base64(text);
    if (!value || value->size() != size) continue;
    checksum.value = std::move(*value);
    return checksum;
  }
  return {};
}

void learn_borders(Checksum& checksum, const Answer& first_part, std::uint64_t object_bytes) {
  const auto bytes = wire::parse_count(first_part.header("content-length"));
  if (!bytes || *bytes == 0 || checksum.parts == 0) return;
  if ((object_bytes + *bytes - 1) / *bytes == checksum.parts) checksum.part_bytes = *bytes;
}

std::string bytes_of(std::uint32_t sum) { return big_endian(sum, 4); }

Digest::Digest(Checksum expected) : expected_(std::move(expected)) {
  if (expected_.lacks_borders()) return;
  sum_ = sum_of(expected_.kind);
  if (expected_.parts > 0) outer_ = sum_of(expected_.kind);
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::end_part() {
  outer_->add(sum_->take());
  in_part_ = 0;
  ++ended_;
}

void Digest::add(std::string_view bytes) {
  if (!sum_) return;
  while (outer_ && expected_.part_bytes > 0 && bytes.size() > expected_.part_bytes - in_part_) {
    const auto rest = static_cast<std::size_t>(expected_.part_bytes - in_part_);
    sum_->add(bytes.substr(0, rest));
    bytes.remove_prefix(rest);
    end_part();
  }
  sum_->add(bytes);
  in_part_ += bytes.size();
}

bool Digest::matches() {
  if (!sum_) return true;
  if (!outer_) return sum_->take() == expected_.value;
  end_part();
  return ended_ == expected_.parts && outer_->take() == expected_.value;
}

}  // namespace spotter::s3
