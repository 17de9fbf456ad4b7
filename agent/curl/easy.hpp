// One handle of libcurl: a transfer, or several one after the other. All clients of ours have what
// is set here: HTTP/1.1 over http and https, no redirects unless asked for, one user agent, one
// trust, libcurl's own proxy variables, and nothing in the request that nobody asked for.
#pragma once

#include <curl/curl.h>
#include <openssl/types.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spotter::curl {

// Whom TLS trusts: every connection of ours, whichever client makes it, asks the same authorities.
// Without Asio: libspotter's S3 tier links it.

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

inline constexpr const char* user_agent = "spotter";

using Headers = std::vector<std::pair<std::string, std::string>>;

// The status in an answer's line, which may end with its CR LF: that of HTTP/1.1 206 Partial
// Content; 0: it names none. None: no such line.
std::optional<int> parse_status(std::string_view line);
// The name in lower case. None: no header.
std::optional<std::pair<std::string, std::string>> parse_header(std::string_view line);

// Takes an answer. False ends the transfer.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual bool take_header(std::string_view line) = 0;  // also "HTTP/1.1 200 OK", and the empty one
  virtual bool take_body(std::string_view bytes) = 0;
};

struct Limits {
  std::chrono::milliseconds connect{3'000};
  std::optional<std::chrono::milliseconds> whole{};  // the connect included; none: no limit
  std::optional<std::chrono::seconds> silence{};     // without a byte
  long read_at_once = 0;                             // bytes; 0: libcurl's own
  long write_at_once = 0;
};

std::string words_for(CURLcode code);  // libcurl's
// The server's certificate is not trusted, or nobody's can be, as ours cannot be read.
bool is_distrust(CURLcode code);

// Neither copied nor moved: libcurl keeps pointers into it.
class Easy {
 public:
  Easy(const TrustStore& trust, const Limits& limits);
  ~Easy();
  Easy(const Easy&) = delete;
  Easy& operator=(const Easy&) = delete;

  void hand_to(Sink& sink);  // which outlives the transfer
  void set_url(const std::string& url);
  void set_headers(const Headers& headers);
  // The body is not copied. It is sent when it is not empty, and with POST and PUT.
  void set_method(const std::string& method, std::string_view body = {});

  void ignore_proxy();  // link-local services
  void keep_path();     // a key of S3 may be a/../b
  // libcurl sends a request a second time by itself when a reused connection turns out to be dead:
  // not so on a connection of its own.
  void use_own_connection();
  void follow_redirects(long most, bool only_to_https);
  // Asked now and then; true ends the transfer with CURLE_ABORTED_BY_CALLBACK. It has to outlive
  // it.
  void stop_when(const std::function<bool()>& stop);

  CURLcode perform();  // here and now; else a loop does it (curl/loop.hpp)

  int status() const;  // of the answer
  // Everything up to the handshakes is done: the request may have gone out.
  bool may_have_sent() const;
  // libcurl's words for the last transfer; for a bad certificate, what is wrong and what to do.
  std::string explain(CURLcode code) const;

 private:
  friend class Loop;
  std::string explain_certificate() const;
  static CURLcode on_context(CURL* easy, void* context, void* self);
  CURL* easy_;
  const TrustStore trust_;
  curl_slist* headers_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> message_{};
};

}  // namespace spotter::curl
