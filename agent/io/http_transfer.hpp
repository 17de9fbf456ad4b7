// One exchange of HttpClient: a libcurl easy handle, and what it reads and writes. Private to io/.
#pragma once

#include <curl/curl.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "agent/io/http.hpp"

namespace spotter::io {

// Where the certificates of the authorities are.
struct TrustStore {
  std::string bundle;     // a file; wins when it is not empty
  std::string directory;  // with hashed links: libcurl then reads only the certificates it needs,
                          // not all 140, which would stay in memory
  static TrustStore of_this_machine();
};

// Neither copied nor moved: libcurl keeps pointers into it.
class HttpExchange {
 public:
  HttpExchange(HttpRequest request, const TrustStore& trust);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  CURL* handle() const { return easy_; }
  HttpResult result(CURLcode code);  // once, at the end; takes the response away

 private:
  void set_limits();
  void set_message();
  void set_trust(const TrustStore& trust);
  HttpError error(CURLcode code) const;
  void take_header(std::string_view line);
  bool take_body(std::string_view bytes);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);

  HttpRequest request_;
  HttpResponse response_;
  CURL* easy_ = nullptr;
  curl_slist* headers_ = nullptr;
  bool too_large_ = false;
  std::array<char, CURL_ERROR_SIZE> message_{};
};

}  // namespace spotter::io
