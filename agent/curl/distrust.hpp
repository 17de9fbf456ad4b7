// Why TLS trusts a server's certificate not, for a person, and what to do about it. No I/O.
// Source: openssl-verification-options(1), X509_STORE_CTX_get_error(3).
#pragma once

#include <string>
#include <string_view>

#include "agent/curl/trust_store.hpp"

namespace spotter::curl {

struct Distrust {
  long verdict = 0;            // OpenSSL's X509_V_ERR_...; X509_V_OK: the name is another one
  std::string server;          // whose certificate it is, as the URL names it
  TrustStore::Places trusted;  // the authorities that were asked
  std::string clock;           // what this machine's clock says
};

std::string explain(const Distrust& distrust);
// The authorities' own file or folder.
std::string explain_unreadable(const TrustStore::Places& trusted);

// Of a URL: its host, without port.
std::string_view host_of(std::string_view url);

}  // namespace spotter::curl
