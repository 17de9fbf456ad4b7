#include "agent/curl/records.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/ssl3.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace spotter::curl {
namespace {

constexpr std::size_t header_bytes = 5;
constexpr std::size_t tag_bytes = 16;
constexpr std::size_t vector_bytes = 12;
constexpr std::size_t least_record = 1 + tag_bytes;  // its type
// RFC 8446, 5.2: more is a fault of who sends it.
constexpr std::size_t most_record = (16U << 10) + 256;
constexpr char new_session_ticket = 4;
constexpr std::size_t message_header = 4;  // its type, and three bytes of its length
constexpr int most_empty = 32;  // records without content in succession, as OpenSSL has it

// HKDF-Expand-Label with an empty context. Empty: it failed.
std::string derive(const EVP_MD* digest, std::string_view secret, std::string_view label,
                   std::size_t bytes) {
  const std::string name = "tls13 " + std::string(label);
  std::string info{static_cast<char>(bytes >> 8), static_cast<char>(bytes),
                   static_cast<char>(name.size())};
  info.append(name).push_back('\0');
  const auto text = [](std::string_view of) {
    return reinterpret_cast<const unsigned char*>(of.data());
  };
  std::string derived(bytes, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(derived.data());
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), EVP_PKEY_CTX_free);
  const bool done =
      context && EVP_PKEY_derive_init(context.get()) > 0 &&
      EVP_PKEY_CTX_hkdf_mode(context.get(), EVP_PKEY_HKDEF_MODE_EXPAND_ONLY) > 0 &&
      EVP_PKEY_CTX_set_hkdf_md(context.get(), digest) > 0 &&
      EVP_PKEY_CTX_set1_hkdf_key(context.get(), text(secret), static_cast<int>(secret.size())) >
          0 &&
      EVP_PKEY_CTX_add1_hkdf_info(context.get(), text(info), static_cast<int>(info.size())) > 0 &&
      EVP_PKEY_derive(context.get(), out, &bytes) > 0;
  if (!done) derived.clear();
  return derived;
}

}  // namespace

std::unique_ptr<Records> Records::make(const EVP_CIPHER* cipher, const EVP_MD* digest,
                                       std::string_view secret, std::uint64_t sequence) {
  const bool fits = cipher != nullptr && digest != nullptr &&
                    EVP_CIPHER_get_mode(cipher) == EVP_CIPH_GCM_MODE &&
                    EVP_CIPHER_get_iv_length(cipher) == vector_bytes &&
                    secret.size() == static_cast<std::size_t>(EVP_MD_get_size(digest));
  if (!fits) return nullptr;
  std::string key =
      derive(digest, secret, "key", static_cast<std::size_t>(EVP_CIPHER_get_key_length(cipher)));
  std::string vector = derive(digest, secret, "iv", vector_bytes);
  std::unique_ptr<Records> records;
  if (!key.empty() && !vector.empty()) records.reset(new Records(cipher, key, vector, sequence));
  OPENSSL_cleanse(key.data(), key.size());
  OPENSSL_cleanse(vector.data(), vector.size());
  return records && records->context_ != nullptr ? std::move(records) : nullptr;
}

Records::Records(const EVP_CIPHER* cipher, std::string_view key, std::string_view vector,
                 std::uint64_t sequence)
    : context_(EVP_CIPHER_CTX_new()), sequence_(sequence) {
  std::memcpy(vector_.data(), vector.data(), vector_.size());
  const auto* const secret = reinterpret_cast<const unsigned char*>(key.data());
  if (EVP_DecryptInit_ex(context_, cipher, nullptr, secret, vector_.data()) == 1) return;
  EVP_CIPHER_CTX_free(context_);
  context_ = nullptr;
}

Records::~Records() {
  EVP_CIPHER_CTX_free(context_);
  OPENSSL_cleanse(vector_.data(), vector_.size());
}

std::span<char> Records::room() {
  // What is left of the last record, which is less than one, goes to the begin.
  if (begin_ > 0) {
    std::memmove(received_.data(), received_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return std::span(received_).subspan(end_);
}

void Records::put(std::size_t bytes) { end_ += bytes; }

Records::State Records::take(std::span<char> into, std::size_t& got) {
  if (spare_begin_ < spare_end_) {
    got = std::min(into.size(), spare_end_ - spare_begin_);
    std::memcpy(into.data(), spare_.data() + spare_begin_, got);
    spare_begin_ += got;
    return State::Some;
  }
  got = 0;
  if (over_) return *over_;
  while (end_ - begin_ >= header_bytes) {
    const auto* const record = reinterpret_cast<const unsigned char*>(received_.data()) + begin_;
    const std::size_t body = std::size_t{record[3]} << 8 | record[4];
    const bool is_one =
        record[0] == SSL3_RT_APPLICATION_DATA && body >= least_record && body <= most_record;
    if (!is_one) return *(over_ = State::Broken);
    if (end_ - begin_ < header_bytes + body) return State::Lacking;
    begin_ += header_bytes + body;
    const State state = take_record({record, header_bytes + body}, into, got);
    if (state != State::Some) return *(over_ = state);
    if (got > 0) {
      empty_ = 0;
      return state;
    }
    if (++empty_ > most_empty) return *(over_ = State::Broken);
  }
  return State::Lacking;
}

// Its content without the last byte goes to `into`: that is the type, where it is not padded.
bool Records::open(std::span<const unsigned char> record, char* into, unsigned char& last) {
  auto nonce = vector_;
  for (std::size_t i = 0; i < sizeof sequence_; ++i)
    nonce[vector_bytes - 1 - i] ^= static_cast<unsigned char>(sequence_ >> (8 * i));
  ++sequence_;
  const auto sealed = record.subspan(header_bytes, record.size() - header_bytes - tag_bytes);
  std::array<unsigned char, tag_bytes> tag;
  std::copy_n(record.end() - tag_bytes, tag_bytes, tag.begin());
  const auto rest = static_cast<int>(sealed.size() - 1);
  int count = 0;
  unsigned char none = 0;
  return EVP_DecryptInit_ex(context_, nullptr, nullptr, nullptr, nonce.data()) == 1 &&
         EVP_DecryptUpdate(context_, nullptr, &count, record.data(), header_bytes) == 1 &&
         EVP_DecryptUpdate(context_, reinterpret_cast<unsigned char*>(into), &count, sealed.data(),
                           rest) == 1 &&
         EVP_DecryptUpdate(context_, &last, &count, sealed.data() + rest, 1) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, tag_bytes, tag.data()) == 1 &&
         EVP_DecryptFinal_ex(context_, &none, &count) == 1;
}

Records::State Records::take_record(std::span<const unsigned char> record, std::span<char> into,
                                    std::size_t& got) {
  std::size_t size = record.size() - header_bytes - tag_bytes - 1;
  if (size + 1 > most_plain) return State::Broken;
  const bool fits = size <= into.size();
  char* const content = fits ? into.data() : spare_.data();
  unsigned char type = 0;
  if (!open(record, content, type)) return State::Broken;
  while (type == 0 && size > 0) type = static_cast<unsigned char>(content[--size]);
  if (type != SSL3_RT_APPLICATION_DATA) return take_message({content, size}, type);
  got = std::min(size, into.size());
  if (fits) return State::Some;
  std::memcpy(into.data(), content, got);
  spare_begin_ = got;
  spare_end_ = size;
  return State::Some;
}

Records::State Records::take_message(std::string_view content, unsigned char type) {
  constexpr char close_notify = 0;
  if (type == SSL3_RT_ALERT && content.size() == 2 && content[1] == close_notify)
    return State::Closed;
  if (type != SSL3_RT_HANDSHAKE || content.empty()) return State::Broken;
  // Whole tickets and nothing else: what changes keys would be missed in a fragment.
  while (!content.empty()) {
    if (content.size() < message_header || content.front() != new_session_ticket)
      return State::Broken;
    const auto byte = [&](std::size_t i) {
      return std::size_t{static_cast<unsigned char>(content[i])};
    };
    const std::size_t size = byte(1) << 16 | byte(2) << 8 | byte(3);
    if (content.size() - message_header < size) return State::Broken;
    content.remove_prefix(message_header + size);
  }
  return State::Some;
}

}  // namespace spotter::curl
