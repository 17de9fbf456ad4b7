// What has to be known of a connection that OpenSSL has made to go on without it in reading its
// records: their keys, and how many were read. It writes on, and has read what a server sends
// before its first answer (the tickets of sessions).
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "agent/curl/records.hpp"

namespace spotter::curl {

class Handover {
 public:
  // Of the connection that this context makes. Before its handshake. It may outlive the context.
  static std::shared_ptr<Handover> watch(SSL_CTX* context);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // REQUIRES: the connection is open, and bytes of an answer were read last: else OpenSSL may have
  // read a record's header and not the rest. Null: not now, as OpenSSL has read what it has not
  // handed out yet; or never, as this is no TLS 1.3. Once it is not, OpenSSL reads nothing any
  // more, not even when libcurl closes the connection.
  std::unique_ptr<Records> take();

 private:
  Handover() = default;
  static Handover* of(const SSL* tls);
  static void on_state(const SSL* tls, int where, int result);
  static void on_message(int written, int version, int type, const void* bytes, std::size_t size,
                         SSL* tls, void* argument);
  static void on_secret(const SSL* tls, const char* line);

  SSL* tls_ = nullptr;  // once its handshake is done
  std::string secret_;
  std::uint64_t read_ = 0;  // records, since then
  bool never_ = false;
};

}  // namespace spotter::curl
