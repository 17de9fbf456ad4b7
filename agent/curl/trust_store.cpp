#include "agent/curl/trust_store.hpp"

#include <cstdlib>
#include <filesystem>

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

}  // namespace

TrustStore TrustStore::of_this_machine() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return {.bundle = value, .directory = {}};
  }
  const char* directory = "/etc/ssl/certs";
  if (has_hashed_links(directory)) return {.bundle = {}, .directory = directory};
  return {};
}

void TrustStore::give(CURL* easy) const {
  if (!bundle.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, bundle.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  } else if (!directory.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, nullptr);
    curl_easy_setopt(easy, CURLOPT_CAPATH, directory.c_str());
  }
}

}  // namespace spotter::curl
