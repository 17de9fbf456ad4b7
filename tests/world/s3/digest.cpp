#include "tests/world/s3/digest.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>

namespace spotter::world::s3 {
namespace {

class Hash : public Digest {
 public:
  explicit Hash(const EVP_MD* kind) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), kind, nullptr);
  }
  void take(std::string_view bytes) override {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  std::string finish() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), raw.data(), &size);
    return {reinterpret_cast<const char*>(raw.data()), size};
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// Eight bytes a step (Kounavis and Berry: "A Systematic Approach to Building High Performance
// Software-Based CRC Generators", 2005). `Polynomial`: reflected.
template <class Word, Word Polynomial>
class Crc : public Digest {
 public:
  void take(std::string_view bytes) override {
    const char* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; at += 8, left -= 8) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, at, 8);
      static_assert(std::endian::native == std::endian::little);
      eight ^= value_;
      Word next = 0;
      for (std::size_t k = 0; k < 8; ++k) next ^= tables[7 - k][(eight >> (8 * k)) & 0xff];
      value_ = next;
    }
    for (; left > 0; ++at, --left)
      value_ = tables[0][(value_ ^ static_cast<unsigned char>(*at)) & 0xff] ^ (value_ >> 8);
  }
  std::string finish() override {
    const Word crc = ~value_;
    std::string raw;
    for (std::size_t k = sizeof(Word); k-- > 0;) raw += static_cast<char>(crc >> (8 * k) & 0xff);
    return raw;
  }

 private:
  using Tables = std::array<std::array<Word, 256>, 8>;
  static constexpr Tables make() {
    Tables made{};
    for (std::size_t i = 0; i < 256; ++i) {
      Word value = static_cast<Word>(i);
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? Polynomial : 0);
      made[0][i] = value;
    }
    for (std::size_t k = 1; k < 8; ++k)
      for (std::size_t i = 0; i < 256; ++i)
        made[k][i] = made[k - 1][i] >> 8 ^ made[0][made[k - 1][i] & 0xff];
    return made;
  }
  static constexpr Tables tables = make();

  Word value_ = static_cast<Word>(~Word{0});
};

constexpr std::array names = {std::string_view("MD5"),    std::string_view("SHA1"),
                              std::string_view("SHA256"), std::string_view("CRC32"),
                              std::string_view("CRC32C"), std::string_view("CRC64NVME")};
constexpr std::string_view header_prefix = "x-amz-checksum-";

bool same_letters(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) ==
           std::toupper(static_cast<unsigned char>(b));
  });
}

}  // namespace

std::unique_ptr<Digest> make_digest(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::Md5:
      return std::make_unique<Hash>(EVP_md5());
    case Algorithm::Sha1:
      return std::make_unique<Hash>(EVP_sha1());
    case Algorithm::Sha256:
      return std::make_unique<Hash>(EVP_sha256());
    case Algorithm::Crc32:
      return std::make_unique<Crc<std::uint32_t, 0xedb88320>>();
    case Algorithm::Crc32c:
      return std::make_unique<Crc<std::uint32_t, 0x82f63b78>>();
    case Algorithm::Crc64Nvme:
      return std::make_unique<Crc<std::uint64_t, 0x9a6c9329ac4bc9b5>>();
  }
  return nullptr;
}

std::string digest(Algorithm algorithm, std::string_view bytes) {
  const auto it = make_digest(algorithm);
  it->take(bytes);
  return it->finish();
}

std::optional<Algorithm> checksum_algorithm(std::string_view name) {
  for (std::size_t i = 1; i < names.size(); ++i)
    if (same_letters(name, names[i])) return static_cast<Algorithm>(i);
  return std::nullopt;
}

std::optional<Algorithm> checksum_header(std::string_view header) {
  if (!header.starts_with(header_prefix)) return std::nullopt;
  return checksum_algorithm(header.substr(header_prefix.size()));
}

std::string_view checksum_name(Algorithm algorithm) {
  return names.at(static_cast<std::size_t>(algorithm));
}

std::string checksum_header_of(Algorithm algorithm) {
  std::string header(header_prefix);
  for (const char c : checksum_name(algorithm))
    header += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return header;
}

bool is_checksum(Algorithm algorithm, const std::string& value) {
  const auto raw = parse_base64(value);
  return raw && raw->size() == digest(algorithm, "").size();
}

std::string hexadecimal(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> parse_base64(const std::string& text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3 + 1, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  const auto padding = std::count(text.end() - (text.empty() ? 0 : 2), text.end(), '=');
  if (size < 0 || size < padding) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(size - padding));
  return bytes;
}

}  // namespace spotter::world::s3
