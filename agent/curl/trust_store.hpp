// Whom TLS trusts: every connection of ours, whichever client makes it, asks the same authorities.
// Without Asio: libspotter's S3 tier links it.
#pragma once

#include <curl/curl.h>

#include <string>

namespace spotter::curl {

// Where the certificates of the authorities are. Both empty: where libcurl was built to look.
struct TrustStore {
  std::string bundle;     // a PEM file; wins when it is not empty
  std::string directory;  // with hashed links: libcurl then reads only the certificates it needs,
                          // not all 140, which would stay in memory

  // The file of AWS_CA_BUNDLE, else of CURL_CA_BUNDLE, else of SSL_CERT_FILE; else /etc/ssl/certs,
  // where that has hashed links. A file that cannot be read fails the connection, as it does in
  // AWS's own tools.
  static TrustStore of_this_machine();

  void give(CURL* easy) const;  // for the transfers that it begins from now on
};

}  // namespace spotter::curl
