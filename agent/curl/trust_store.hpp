// Whom TLS trusts: every connection of ours, whichever client makes it, asks the same authorities.
// Without Asio: libspotter's S3 tier links it.
#pragma once

#include <curl/curl.h>
#include <openssl/types.h>

#include <memory>
#include <string>

namespace spotter::curl {

// Copies share what was read: a bundle has some 140 certificates, and parsing them for each
// connection would cost as much as receiving 10 MB. From several threads.
class TrustStore {
 public:
  // The files with the authorities' certificates. Both empty: those that libcurl was built to read.
  struct Places {
    std::string bundle;     // a PEM file; wins when it is not empty
    std::string directory;  // with hashed links: of these only the certificates are read that are
                            // needed, not all 140, which would stay in memory
  };
  explicit TrustStore(Places places);

  // The file of AWS_CA_BUNDLE, else of CURL_CA_BUNDLE, else of SSL_CERT_FILE; else /etc/ssl/certs,
  // where that has hashed links. A file that cannot be read fails the connection, as it does in
  // AWS's own tools.
  static TrustStore of_this_machine();

  const Places& places() const;

  // Sets it for the transfers that the handle begins from now on.
  void give(CURL* easy) const;
  // To a context that libcurl has made, in CURLOPT_SSL_CTX_FUNCTION. CURLE_SSL_CACERT_BADFILE: the
  // certificates cannot be read.
  CURLcode give(SSL_CTX* context) const;

 private:
  struct Read;
  std::shared_ptr<Read> read_;
};

}  // namespace spotter::curl
