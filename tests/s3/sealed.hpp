// A server's records of TLS 1.3, sealed as RFC 8448, 3 has the keys of a simple handshake with
// AES-128-GCM.
#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace spotter::curl {

inline std::string from_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  return bytes;
}

// The server's traffic, and what it is sealed with.
inline const std::string secret =
    from_hex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
inline const std::string key = from_hex("9f02283b6c9c07efc26bb9f2ac92e356");
inline const std::string vector = from_hex("cf782b88dd83549aadf1e984");

inline constexpr unsigned char of_content = 23;
inline constexpr unsigned char of_handshake = 22;
inline constexpr unsigned char of_alert = 21;

// What a server sends: so many noughts behind it are padding.
inline std::string sealed(std::uint64_t sequence, std::string content,
                          unsigned char type = of_content, std::size_t padding = 0) {
  content += static_cast<char>(type);
  content.append(padding, '\0');
  std::string nonce = vector;
  for (std::size_t i = 0; i < 8; ++i)
    nonce[11 - i] = static_cast<char>(nonce[11 - i] ^ static_cast<char>(sequence >> (8 * i)));
  const std::size_t size = content.size() + 16;
  std::string record{23, 3, 3, static_cast<char>(size >> 8), static_cast<char>(size)};
  const auto bytes = [](std::string& of) { return reinterpret_cast<unsigned char*>(of.data()); };
  std::string out(content.size(), '\0');
  std::string tag(16, '\0');
  std::string its_key = key;
  int count = 0;
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nullptr, bytes(its_key), bytes(nonce));
  EVP_EncryptUpdate(context, nullptr, &count, bytes(record), 5);
  EVP_EncryptUpdate(context, bytes(out), &count, bytes(content), static_cast<int>(content.size()));
  EVP_EncryptFinal_ex(context, nullptr, &count);
  EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag.data());
  EVP_CIPHER_CTX_free(context);
  return record + out + tag;
}

}  // namespace spotter::curl
