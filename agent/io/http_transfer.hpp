// One exchange of HttpClient: what libcurl is asked, and what of the answer is kept. Private to
// io/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/curl/loop.hpp"
#include "agent/io/http.hpp"

namespace spotter::io {

// Neither copied nor moved: libcurl keeps pointers into it.
class HttpExchange final : public curl::Sink {
 public:
  HttpExchange(HttpRequest request, const curl::TrustStore& trust);

  curl::Easy& easy() { return easy_; }
  // Once, at the end; takes the response away.
  Result<HttpResponse, CallError> result(CURLcode code);

 private:
  CallError error(CURLcode code) const;
  bool take_header(std::string_view line) override;
  bool take_body(std::string_view bytes) override;

  HttpRequest request_;
  HttpResponse response_;
  curl::Easy easy_;
  bool too_large_ = false;
};

}  // namespace spotter::io
