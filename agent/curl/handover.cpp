#include "agent/curl/handover.hpp"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <charconv>
#include <string_view>

namespace spotter::curl {
namespace {

using Held = std::shared_ptr<Handover>;

// A context may outlive who watches it, as libcurl closes connections late.
int index_of_held() {
  static const int index = SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr, [](void*, void* held, CRYPTO_EX_DATA*, int, long, void*) {
        delete static_cast<Held*>(held);
      });
  return index;
}

std::string from_hex(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 2);  // no block that is freed has a part of a secret
  for (; text.size() >= 2; text.remove_prefix(2)) {
    unsigned char byte = 0;
    std::from_chars(text.data(), text.data() + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace

std::shared_ptr<Handover> Handover::watch(SSL_CTX* context) {
  // Somebody wants the keys in a file: SSLKEYLOGFILE.
  if (SSL_CTX_get_keylog_callback(context) != nullptr) return nullptr;
  Held handover(new Handover);
  SSL_CTX_set_ex_data(context, index_of_held(), new Held(handover));
  SSL_CTX_set_info_callback(context, on_state);
  SSL_CTX_set_msg_callback(context, on_message);
  SSL_CTX_set_keylog_callback(context, on_secret);
  return handover;
}

Handover::~Handover() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

Handover* Handover::of(const SSL* tls) {
  return static_cast<Held*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(tls), index_of_held()))->get();
}

// Also called for each ticket of a session.
void Handover::on_state(const SSL* tls, int where, int) {
  Handover& it = *of(tls);
  if (where != SSL_CB_HANDSHAKE_DONE || it.tls_ != nullptr) return;
  it.tls_ = const_cast<SSL*>(tls);
  it.read_ = 0;
}

void Handover::on_message(int written, int, int type, const void* bytes, std::size_t size, SSL* tls,
                          void*) {
  if (written != 0 || size == 0) return;
  Handover& it = *of(tls);
  const auto first = *static_cast<const unsigned char*>(bytes);
  if (type == SSL3_RT_HEADER) ++it.read_;
  if (type == SSL3_RT_HANDSHAKE && first == SSL3_MT_KEY_UPDATE) it.never_ = true;
}

// "SERVER_TRAFFIC_SECRET_0 RANDOM SECRET", in hex.
void Handover::on_secret(const SSL* tls, const char* text) {
  std::string_view line(text);
  constexpr std::string_view name = "SERVER_TRAFFIC_SECRET_0 ";
  if (line.starts_with(name)) of(tls)->secret_ = from_hex(line.substr(line.rfind(' ') + 1));
}

std::unique_ptr<Records> Handover::take() {
  if (never_ || tls_ == nullptr || SSL_has_pending(tls_) != 0) return nullptr;
  const SSL_CIPHER* const cipher = SSL_get_current_cipher(tls_);
  never_ = true;
  if (SSL_version(tls_) != TLS1_3_VERSION || cipher == nullptr) return nullptr;
  auto records = Records::make(EVP_get_cipherbynid(SSL_CIPHER_get_cipher_nid(cipher)),
                               SSL_CIPHER_get_handshake_digest(cipher), secret_, read_);
  OPENSSL_cleanse(secret_.data(), secret_.size());
  // libcurl reads once more when it closes: of a stream of which OpenSSL knows nothing any more
  // that would be an error, which spoils the session for those that would resume it.
  if (records) SSL_set_shutdown(tls_, SSL_get_shutdown(tls_) | SSL_RECEIVED_SHUTDOWN);
  return records;
}

}  // namespace spotter::curl
