#include "agent/curl/trust_store.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace spotter::curl {
namespace {

bool has_hashed_links(const std::filesystem::path& directory) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    const std::string name = entry.path().filename().string();  // 5a7722fb.0
    if (name.size() == 10 && name.substr(8) == ".0" &&
        name.find_first_not_of("0123456789abcdef") == 8) {
      return true;
    }
  }
  return false;
}

// Where libcurl was built to look. Empty: nowhere.
std::string built_in_bundle() {
  const char* bundle = curl_version_info(CURLVERSION_NOW)->cainfo;
  return bundle == nullptr ? "" : bundle;
}

}  // namespace

struct TrustStore::Read {
  explicit Read(Places where) : places(std::move(where)) {}
  ~Read() { X509_STORE_free(store); }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

  Places places;
  std::once_flag once;
  X509_STORE* store = nullptr;  // null afterwards: it cannot be read
};

TrustStore::TrustStore(Places places) : read_(std::make_shared<Read>(std::move(places))) {}

TrustStore TrustStore::of_this_machine() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return TrustStore({.bundle = value, .directory = {}});
  }
  const char* directory = "/etc/ssl/certs";
  if (has_hashed_links(directory)) return TrustStore({.bundle = {}, .directory = directory});
  return TrustStore({});
}

const TrustStore::Places& TrustStore::places() const { return read_->places; }

// libcurl itself reads nothing: give(SSL_CTX*) hands it the authorities.
void TrustStore::give(CURL* easy) const {
  curl_easy_setopt(easy, CURLOPT_CAINFO, nullptr);
  curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
}

CURLcode TrustStore::give(SSL_CTX* context) const {
  std::call_once(read_->once, [this] {
    const auto& [bundle, directory] = read_->places;
    X509_STORE* const store = X509_STORE_new();
    const std::string file = directory.empty() && bundle.empty() ? built_in_bundle() : bundle;
    const int read = file.empty() ? X509_STORE_load_path(store, directory.c_str())
                                  : X509_STORE_load_file(store, file.c_str());
    if (read == 1) {
      // As libcurl does it: an intermediate certificate that is in the bundle is trusted.
      X509_STORE_set_flags(store, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
      read_->store = store;
    } else {
      X509_STORE_free(store);
    }
    ERR_clear_error();  // a bundle may name a certificate twice; whoever comes next reads the queue
  });
  if (read_->store == nullptr) return CURLE_SSL_CACERT_BADFILE;
  SSL_CTX_set1_cert_store(context, read_->store);
  return CURLE_OK;
}

}  // namespace spotter::curl
