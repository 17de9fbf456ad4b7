#include "agent/curl/easy.hpp"

#include <dirent.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <strings.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "agent/base/clock_text.hpp"
#include "agent/base/text.hpp"

namespace spotter::curl {
namespace {

// Why TLS trusts a server's certificate not, for a person, and what to do about it. No I/O.
// Source: openssl-verification-options(1), X509_STORE_CTX_get_error(3).
struct Distrust {
  long verdict = 0;            // OpenSSL's X509_V_ERR_...; X509_V_OK: the name is another one
  std::string server;          // whose certificate it is, as the URL names it
  TrustStore::Places trusted;  // the authorities that were asked
  std::string clock;           // what this machine's clock says
};

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

// The host of a URL, without port.
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

// The authorities' own file or folder.
std::string explain_unreadable(const TrustStore::Places& trusted) {
  return "the certificates of the authorities cannot be read from " + name_of(trusted) +
         ": AWS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE names a file in PEM";
}

// An idle connection that is older is not used again.
constexpr long idle_connection_seconds = 60;

CURL* new_handle() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  CURL* const easy = curl_easy_init();
  assert(easy != nullptr);
  return easy;
}

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* sink) {
  return static_cast<Sink*>(sink)->take_header({data, size * count}) ? size * count : 0;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* sink) {
  const bool taken = static_cast<Sink*>(sink)->take_body({data, size * count});
  return taken ? size * count : 0;  // 0 of a piece that is not empty ends the transfer
}

std::string utc_now() {
  return wire::to_rfc3339(
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
}

int on_progress(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<const std::function<bool()>*>(stop))() ? 1 : 0;
}

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

std::optional<int> parse_status(std::string_view line) {
  if (!line.starts_with("HTTP/")) return std::nullopt;
  const auto code = trimmed(line.substr(std::min(line.find(' '), line.size()))).substr(0, 3);
  int status = 0;
  const auto* const end = code.data() + code.size();
  return std::from_chars(code.data(), end, status).ptr == end ? status : 0;
}

std::optional<std::pair<std::string, std::string>> parse_header(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == line.npos) return std::nullopt;
  std::string name(trimmed(line.substr(0, colon)));
  std::ranges::transform(name, name.begin(), lower);
  return std::pair(std::move(name), std::string(trimmed(line.substr(colon + 1))));
}

std::string words_for(CURLcode code) { return curl_easy_strerror(code); }

bool is_distrust(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR;
}

Easy::Easy(const TrustStore& trust, const Limits& limits) : easy_(new_handle()), trust_(trust) {
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, message_.data());
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  // A transfer that is taken away does not wait for its name's server. Since libcurl 7.87.
  curl_easy_setopt(easy_, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy_, CURLOPT_USERAGENT, user_agent);
  curl_easy_setopt(easy_, CURLOPT_MAXAGE_CONN, idle_connection_seconds);
  // To libcurl 0 means "for ever", or "its own limit".
  const auto at_least_one = [](auto count) { return std::max(1L, static_cast<long>(count)); };
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, at_least_one(limits.connect.count()));
  if (limits.whole)
    curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, at_least_one(limits.whole->count()));
  if (limits.silence) {
    curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_TIME, at_least_one(limits.silence->count()));
  }
  if (limits.read_at_once > 0) curl_easy_setopt(easy_, CURLOPT_BUFFERSIZE, limits.read_at_once);
  if (limits.write_at_once > 0)
    curl_easy_setopt(easy_, CURLOPT_UPLOAD_BUFFERSIZE, limits.write_at_once);
  trust_.give(easy_);
  curl_easy_setopt(easy_, CURLOPT_SSL_CTX_FUNCTION, on_context);
  curl_easy_setopt(easy_, CURLOPT_SSL_CTX_DATA, this);
}

CURLcode Easy::on_context(CURL*, void* context, void* self) {
  auto* const tls = static_cast<SSL_CTX*>(context);
  // A server has no reason to ask for one; TLS 1.3 has none.
  SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION);
  return static_cast<Easy*>(self)->trust_.give(tls);
}

Easy::~Easy() {
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
}

void Easy::hand_to(Sink& sink) {
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, &sink);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &sink);
}

void Easy::set_url(const std::string& url) {
  message_[0] = '\0';
  curl_easy_setopt(easy_, CURLOPT_URL, url.c_str());
}

void Easy::set_headers(const Headers& headers) {
  curl_slist_free_all(headers_);
  headers_ = nullptr;
  bool has_type = false;
  for (const auto& [name, value] : headers) {
    has_type = has_type || ::strcasecmp(name.c_str(), "content-type") == 0;
    // "Name;" is libcurl's way to send a header without a value.
    std::string line = name;
    line.append(value.empty() ? ";" : ": ").append(value);
    headers_ = curl_slist_append(headers_, line.c_str());
  }
  // Empty headers take out those that libcurl would add by itself.
  if (!has_type) headers_ = curl_slist_append(headers_, "Content-Type:");
  headers_ = curl_slist_append(headers_, "Expect:");  // a second's wait where it is not known
  headers_ = curl_slist_append(headers_, "Accept:");
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
}

void Easy::set_method(const std::string& method, std::string_view body) {
  curl_easy_setopt(easy_, CURLOPT_HTTPGET, 1L);  // what the last transfer set is undone
  if (method == "HEAD") curl_easy_setopt(easy_, CURLOPT_NOBODY, 1L);
  if (!body.empty() || method == "PUT" || method == "POST") {
    curl_easy_setopt(easy_, CURLOPT_POST, 1L);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.empty() ? "" : body.data());
  }
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, method.c_str());
}

void Easy::ignore_proxy() { curl_easy_setopt(easy_, CURLOPT_PROXY, ""); }

void Easy::keep_path() { curl_easy_setopt(easy_, CURLOPT_PATH_AS_IS, 1L); }

void Easy::use_own_connection() {
  curl_easy_setopt(easy_, CURLOPT_FRESH_CONNECT, 1L);
  curl_easy_setopt(easy_, CURLOPT_FORBID_REUSE, 1L);
}

void Easy::follow_redirects(long most, bool only_to_https) {
  bool bounded = curl_easy_setopt(easy_, CURLOPT_REDIR_PROTOCOLS_STR,
                                  only_to_https ? "https" : "http,https") == CURLE_OK;
  // A libcurl before 7.85 knows only this, which newer headers call obsolete.
  constexpr auto redirects_to = static_cast<CURLoption>(CURLOPTTYPE_LONG + 182);
  const long mask = only_to_https ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS;
  bounded = bounded || curl_easy_setopt(easy_, redirects_to, mask) == CURLE_OK;
  curl_easy_setopt(easy_, CURLOPT_FOLLOWLOCATION, bounded ? 1L : 0L);
  curl_easy_setopt(easy_, CURLOPT_MAXREDIRS, most);
}

void Easy::stop_when(const std::function<bool()>& stop) {
  curl_easy_setopt(easy_, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy_, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(easy_, CURLOPT_XFERINFODATA, &stop);
}

CURLcode Easy::perform() { return curl_easy_perform(easy_); }

std::string Easy::explain_certificate() const {
  Distrust distrust{.trusted = trust_.places(), .clock = utc_now()};
  curl_easy_getinfo(easy_, CURLINFO_SSL_VERIFYRESULT, &distrust.verdict);
  const char* url = nullptr;
  curl_easy_getinfo(easy_, CURLINFO_EFFECTIVE_URL, &url);
  distrust.server = host_of(url == nullptr ? "" : url);
  return curl::explain(distrust);
}

int Easy::status() const {
  long status = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

bool Easy::may_have_sent() const {
  curl_off_t until = 0;
  curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &until);
  return until > 0;
}

std::string Easy::explain(CURLcode code) const {
  if (code == CURLE_SSL_CACERT_BADFILE) return explain_unreadable(trust_.places());
  if (is_distrust(code)) return explain_certificate();
  return message_[0] != '\0' ? std::string(message_.data()) : words_for(code);
}

struct TrustStore::Read {
  explicit Read(Places where) : places(std::move(where)) {}
  ~Read() { X509_STORE_free(store); }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

  // A bundle may be replaced while a job trains for weeks, as when an authority's certificate is
  // renewed. A bundle that cannot be read now, perhaps as it is being written, leaves the one
  // before.
  void refresh() {
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

  Places places;
  std::mutex mutex;  // of the rest
  std::filesystem::file_time_type written;
  X509_STORE* store = nullptr;  // null: it could not be read yet
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
  const std::lock_guard lock(read_->mutex);
  read_->refresh();
  if (read_->store == nullptr) return CURLE_SSL_CACERT_BADFILE;
  SSL_CTX_set1_cert_store(context, read_->store);
  return CURLE_OK;
}

}  // namespace spotter::curl
