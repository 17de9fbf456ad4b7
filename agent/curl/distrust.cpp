#include "agent/curl/distrust.hpp"

#include <openssl/x509_vfy.h>

#include <algorithm>

namespace spotter::curl {
namespace {

std::string name_of(const TrustStore::Places& trusted) {
  if (!trusted.bundle.empty()) return trusted.bundle;
  return trusted.directory.empty() ? "the machine's own bundle" : trusted.directory;
}

std::string foreign(const Distrust& distrust) {
  return "is of an authority that is not trusted here (asked was " + name_of(distrust.trusted) +
         "): name a file with that authority's certificate in AWS_CA_BUNDLE, if it is a proxy's or "
         "an endpoint's of your own";
}

std::string what_is_wrong(const Distrust& distrust) {
  switch (distrust.verdict) {
    case X509_V_OK:
    case X509_V_ERR_UNSPECIFIED:  // libcurl, which looks at the name first, has not asked OpenSSL
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "is for another host: look at the endpoint's URL, and at what answers there";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "is not valid yet by this machine's clock, which says " + distrust.clock +
             ": the clock is probably wrong, set it";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "has expired by this machine's clock, which says " + distrust.clock +
             ": set the clock if that is wrong, else the server needs a new certificate";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "is self-signed, and not trusted here (asked was " + name_of(distrust.trusted) +
             "): name its file in AWS_CA_BUNDLE if the server is yours";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return foreign(distrust);
    default:
      return std::string("is not accepted: ") + X509_verify_cert_error_string(distrust.verdict);
  }
}

}  // namespace

std::string_view host_of(std::string_view url) {
  if (const auto scheme = url.find("://"); scheme != url.npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  if (const auto user = url.rfind('@'); user != url.npos) url.remove_prefix(user + 1);
  if (url.starts_with('[')) return url.substr(0, std::min(url.find(']'), url.size() - 1) + 1);
  return url.substr(0, url.find(':'));
}

std::string explain(const Distrust& distrust) {
  return "the certificate of " + distrust.server + " " + what_is_wrong(distrust);
}

std::string explain_unreadable(const TrustStore::Places& trusted) {
  return "the certificates of the authorities cannot be read from " + name_of(trusted) +
         ": AWS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE names a file in PEM";
}

}  // namespace spotter::curl
