// One HTTP exchange as values, so that whoever answers knows nothing of sockets.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/decide/names.hpp"

namespace spotter::emulator {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string target;  // as sent: path, and the query after '?', both still percent-encoded
  Headers headers;     // names in lower case, in the order sent
  std::string body;

  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  std::string_view query() const {
    const auto mark = target.find('?');
    return mark == std::string::npos ? std::string_view{}
                                     : std::string_view(target).substr(mark + 1);
  }
  // The first value of this header, or empty.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return value;
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain";
  Headers headers = {};
  Duration delay{0};  // real time to wait before anything is sent
  bool drop = false;  // send nothing, close the connection
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

}  // namespace spotter::emulator
