#include "agent/io/http_transfer.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <ctime>
#include <filesystem>

namespace spotter::io {
namespace {

// Kept small: an idle agent's memory is a promise, and the answers are a few kilobytes.
constexpr long buffer_bytes = 8 * 1024;
constexpr long idle_connection_seconds = 60;

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char letter) { return lower(letter); });
  return out;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::chrono::milliseconds boot_time() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::milliseconds(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

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

HttpExchange::HttpExchange(HttpRequest request, const TrustStore& trust)
    : request_(std::move(request)), easy_(curl_easy_init()) {
  assert(easy_ != nullptr);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, message_.data());
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &HttpExchange::on_header);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &HttpExchange::on_body);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  set_limits();
  set_message();
  set_trust(trust);
}

HttpExchange::~HttpExchange() {
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
}

void HttpExchange::set_limits() {
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(request_.connect_timeout.count()));
  // 0 would mean "for ever" to libcurl.
  curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS,
                   std::max(1L, static_cast<long>(request_.timeout.count())));
  curl_easy_setopt(easy_, CURLOPT_BUFFERSIZE, buffer_bytes);
  curl_easy_setopt(easy_, CURLOPT_MAXAGE_CONN, idle_connection_seconds);
  if (!request_.use_proxy) curl_easy_setopt(easy_, CURLOPT_PROXY, "");
  if (request_.fresh_connection) {
    curl_easy_setopt(easy_, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy_, CURLOPT_FORBID_REUSE, 1L);
  }
}

void HttpExchange::set_message() {
  curl_easy_setopt(easy_, CURLOPT_URL, request_.url.c_str());
  const bool carries_body =
      !request_.body.empty() || request_.method == "POST" || request_.method == "PUT";
  if (carries_body) {
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, request_.body.c_str());  // not copied
  }
  if (request_.method == "HEAD") curl_easy_setopt(easy_, CURLOPT_NOBODY, 1L);
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, request_.method.c_str());

  bool has_type = false;
  for (const auto& [name, value] : request_.headers) {
    has_type = has_type || lower(name) == "content-type";
    // "Name;" is libcurl's way to send a header without a value.
    const std::string line = value.empty() ? name + ";" : name + ": " + value;
    headers_ = curl_slist_append(headers_, line.c_str());
  }
  // What libcurl would add by itself and nobody asked for.
  if (!has_type) headers_ = curl_slist_append(headers_, "Content-Type:");
  headers_ = curl_slist_append(headers_, "Expect:");
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(easy_, CURLOPT_USERAGENT, "spotter");
}

void HttpExchange::set_trust(const TrustStore& trust) {
  if (!trust.bundle.empty()) {
    curl_easy_setopt(easy_, CURLOPT_CAINFO, trust.bundle.c_str());
    curl_easy_setopt(easy_, CURLOPT_CAPATH, nullptr);
  } else if (!trust.directory.empty()) {
    curl_easy_setopt(easy_, CURLOPT_CAINFO, nullptr);
    curl_easy_setopt(easy_, CURLOPT_CAPATH, trust.directory.c_str());
  }
}

HttpResult HttpExchange::result(CURLcode code) {
  if (code != CURLE_OK) return tl::unexpected(error(code));
  long status = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  response_.status = static_cast<int>(status);
  response_.received_at = boot_time();
  return std::move(response_);
}

HttpError HttpExchange::error(CURLcode code) const {
  const std::string text = message_[0] != '\0' ? message_.data() : curl_easy_strerror(code);
  if (too_large_) {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    return {HttpError::Kind::TooLarge,
            "the answer is longer than " + std::to_string(request_.response_limit) + " bytes",
            static_cast<int>(status)};
  }
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
      code == CURLE_SSL_ISSUER_ERROR) {
    return {HttpError::Kind::Security, text};
  }
  // Set when everything up to the connection's handshakes is done and the request may go out.
  curl_off_t may_have_been_sent = 0;
  curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &may_have_been_sent);
  if (may_have_been_sent == 0) return {HttpError::Kind::NotSent, text};
  if (code == CURLE_OPERATION_TIMEDOUT) return {HttpError::Kind::Timeout, text};
  return {HttpError::Kind::Broken, text};
}

void HttpExchange::take_header(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // the final answer after a 100 starts anew
    response_.headers.clear();
    return;
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return;
  response_.headers[lower(trim(line.substr(0, colon)))] = std::string(trim(line.substr(colon + 1)));
}

bool HttpExchange::take_body(std::string_view bytes) {
  too_large_ = response_.body.size() + bytes.size() > request_.response_limit;
  if (!too_large_) response_.body.append(bytes);
  return !too_large_;
}

std::size_t HttpExchange::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  static_cast<HttpExchange*>(self)->take_header({data, size * count});
  return size * count;
}

std::size_t HttpExchange::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  const bool taken = static_cast<HttpExchange*>(self)->take_body({data, size * count});
  return taken ? size * count : 0;  // 0 of a non-empty piece ends the transfer
}

}  // namespace spotter::io
