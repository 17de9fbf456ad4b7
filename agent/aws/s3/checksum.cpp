#include "agent/aws/s3/checksum.hpp"

#include <openssl/evp.h>
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "agent/aws/s3/crc.hpp"

namespace spotter::s3 {
namespace {

std::string big_endian(std::uint64_t sum, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    text += static_cast<char>(sum >> shift & 255);
  return text;
}

}  // namespace

// A sum over bytes that come piece by piece.
class Digest::Sum : Pinned {
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

template <auto which>
class Evp final : public Digest::Sum {
 public:
  Evp() { EVP_DigestInit_ex(context_, which(), nullptr); }
  ~Evp() override { EVP_MD_CTX_free(context_); }
  void add(std::string_view bytes) override {
    EVP_DigestUpdate(context_, bytes.data(), bytes.size());
  }
  std::string take() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_, sum.data(), &size);
    EVP_DigestInit_ex(context_, which(), nullptr);
    return {reinterpret_cast<const char*>(sum.data()), size};
  }

 private:
  EVP_MD_CTX* context_ = EVP_MD_CTX_new();
};

std::string in_order(XXH64_hash_t sum) { return big_endian(sum, 8); }
std::string in_order(XXH128_hash_t sum) { return in_order(sum.high64) + in_order(sum.low64); }

template <auto create, auto reset, auto update, auto digest, auto destroy>
class Xxh final : public Digest::Sum {
 public:
  Xxh() { reset(state_); }
  ~Xxh() override { destroy(state_); }
  void add(std::string_view bytes) override { update(state_, bytes.data(), bytes.size()); }
  std::string take() override {
    auto sum = in_order(digest(state_));
    reset(state_);
    return sum;
  }

 private:
  decltype(create()) state_ = create();
};
XXH_errorcode reset_64(XXH64_state_t* state) { return XXH64_reset(state, 0); }

template <class Its>
std::unique_ptr<Digest::Sum> make() {
  return std::make_unique<Its>();
}

struct Known {
  std::string_view header;
  std::size_t size;
  std::unique_ptr<Digest::Sum> (*make)();
};
// An object has one of them; its MD5, if it has that, beside another.
constexpr std::array known{
    Known{"x-amz-checksum-crc64nvme", 8, make<Crc<&crc64nvme, std::uint64_t>>},
    Known{"x-amz-checksum-crc32c", 4, make<Crc<&crc32c, std::uint32_t>>},
    Known{"x-amz-checksum-crc32", 4, make<Crc<&crc32_of, std::uint32_t>>},
    Known{"x-amz-checksum-xxhash3", 8,
          make<Xxh<&XXH3_createState, &XXH3_64bits_reset, &XXH3_64bits_update, &XXH3_64bits_digest,
                   &XXH3_freeState>>},
    Known{"x-amz-checksum-xxhash64", 8,
          make<Xxh<&XXH64_createState, &reset_64, &XXH64_update, &XXH64_digest, &XXH64_freeState>>},
    Known{"x-amz-checksum-xxhash128", 16,
          make<Xxh<&XXH3_createState, &XXH3_128bits_reset, &XXH3_128bits_update,
                   &XXH3_128bits_digest, &XXH3_freeState>>},
    Known{"x-amz-checksum-sha256", 32, make<Evp<&EVP_sha256>>},
    Known{"x-amz-checksum-sha1", 20, make<Evp<&EVP_sha1>>},
    Known{"x-amz-checksum-sha512", 64, make<Evp<&EVP_sha512>>},
    Known{"x-amz-checksum-md5", 16, make<Evp<&EVP_md5>>}};

// Null: it is none of them.
std::unique_ptr<Digest::Sum> sum_of(std::string_view header) {
  const auto its = std::ranges::find(known, header, &Known::header);
  return its == known.end() ? nullptr : its->make();
}

}  // namespace

Checksum checksum_of(const Answer& answer) {
  for (const auto& [header, size, make] : known) {
    auto text = answer.header(header);
    const auto dash = text.find('-');  // base64 has none
    Checksum checksum{.header = header};
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
  sum_ = sum_of(expected_.header);
  if (expected_.parts > 0) outer_ = sum_of(expected_.header);
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
