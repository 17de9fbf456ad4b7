// The records of TLS 1.3 that a server sends, once OpenSSL has made the connection: received many
// at once, and unpacked from there to where their bytes belong. OpenSSL itself moves each record
// twice and asks the system more often, which took a quarter of the processor time of reading S3
// (bench/README.md). No I/O. Source: RFC 8446, 5.2 and 7.3.
#pragma once

#include <openssl/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace spotter::curl {

class Records {
 public:
  // `secret`: that of the server's traffic; `sequence`: how many records were read with it. Null:
  // OpenSSL has no such cipher, or not as TLS 1.3 uses it.
  static std::unique_ptr<Records> make(const EVP_CIPHER* cipher, const EVP_MD* digest,
                                       std::string_view secret, std::uint64_t sequence);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  // Where what the socket has next belongs; then how much it was. Not empty after Lacking.
  std::span<char> room();
  void put(std::size_t bytes);

  enum class State : std::uint8_t {
    Some,     // `got` bytes are in `into`, and are the server's
    Lacking,  // more has to be received before
    Closed,   // by the server, which has said so
    Broken,   // changed on its way, no record, or new keys: only another connection helps
  };
  // REQUIRES: `into` is not empty. Of what is not the server's nothing counts as got, although
  // `into` may have been written to.
  State take(std::span<char> into, std::size_t& got);

 private:
  Records(const EVP_CIPHER* cipher, std::string_view key, std::string_view vector,
          std::uint64_t sequence);
  bool open(std::span<const unsigned char> record, char* into, unsigned char& last);
  State take_record(std::span<const unsigned char> record, std::span<char> into, std::size_t& got);
  State take_message(std::string_view content, unsigned char type);

  static constexpr std::size_t most_plain = (16U << 10) + 1;  // its type included
  static constexpr std::size_t at_once = 128U << 10;

  EVP_CIPHER_CTX* context_;
  std::array<unsigned char, 12> vector_;
  std::uint64_t sequence_;
  std::size_t begin_ = 0;  // of what was received and not yet unpacked
  std::size_t end_ = 0;
  std::size_t spare_begin_ = 0;  // of what had no room in `into`
  std::size_t spare_end_ = 0;
  int empty_ = 0;              // records without content since the last one that had some
  std::optional<State> over_;  // nothing follows
  std::array<char, most_plain> spare_;
  std::array<char, at_once> received_;
};

}  // namespace spotter::curl
