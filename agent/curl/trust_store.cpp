#include "agent/curl/trust_store.hpp"

#include <dirent.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>

namespace spotter::curl {
namespace {

// Does without the standard library's iterator: trainer/library/files.hpp says why, and
// spotter-train calls this.
bool has_hashed_links(const char* directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory), ::closedir);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    const std::string name = entry->d_name;  // 5a7722fb.0
    if (name.size() == 10 && name.substr(8) == ".0" &&
        name.find_first_not_of("0123456789abcdef") == 8) {
      return true;
    }
  }
  return false;
}

// The bundle that libcurl was built to read. Empty: none.
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

  // A bundle may be replaced while a job trains for weeks, as when an authority's certificate is
  // renewed. A bundle that cannot be read now, perhaps as it is being written, leaves the one
  // before.
  void refresh();

  Places places;
  std::mutex mutex;  // of the rest
  std::filesystem::file_time_type written;
  X509_STORE* store = nullptr;  // null: it could not be read yet
};

void TrustStore::Read::refresh() {
  const auto& [bundle, directory] = places;
  const std::string file = directory.empty() && bundle.empty() ? built_in_bundle() : bundle;
  std::error_code failed;
  const auto now = file.empty() ? written : std::filesystem::last_write_time(file, failed);
  if (store != nullptr && (failed || now == written)) return;
  X509_STORE* const fresh = X509_STORE_new();
  const int read = file.empty() ? X509_STORE_load_path(fresh, directory.c_str())
                                : X509_STORE_load_file(fresh, file.c_str());
  ERR_clear_error();  // a bundle may name a certificate twice; whoever comes next reads the queue
  if (read != 1) return X509_STORE_free(fresh);
  // libcurl does the same: an intermediate certificate that is in the bundle is trusted.
  X509_STORE_set_flags(fresh, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
  X509_STORE_free(store);
  store = fresh;
  written = now;
}

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
  const std::lock_guard lock(read_->mutex);
  read_->refresh();
  if (read_->store == nullptr) return CURLE_SSL_CACERT_BADFILE;
  SSL_CTX_set1_cert_store(context, read_->store);
  return CURLE_OK;
}

}  // namespace spotter::curl
