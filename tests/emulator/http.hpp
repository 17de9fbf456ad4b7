// One HTTP exchange as values, so that whoever answers knows nothing of sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/names.hpp"

namespace spotter::emulator {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string target;  // as sent: path, and the query after '?', both still percent-encoded
  Headers headers;     // names in lower case, in the order sent
  std::string body;    // empty where it is streamed

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

// A part of a file as a body: goes from the page cache to the socket, whatever its size.
struct FileBody {
  std::shared_ptr<const int> descriptor;  // closed with the last that holds it
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t piece = 4 * 1024 * 1024;  // so many bytes are sent at once
  // Asked before each piece, with its size: how long to hold it back. Empty: as fast as can be.
  std::function<std::chrono::nanoseconds(std::uint64_t bytes)> pace = {};
  std::optional<std::uint64_t> reset_after = {};  // bytes of the body, then a TCP reset
  std::optional<std::uint64_t> spoiled = {};      // this byte of the body is sent wrong
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "text/plain";  // empty: no such header
  Headers headers = {};
  Duration delay{0};                            // real time to wait before anything is sent
  bool drop = false;                            // send nothing, close the connection
  bool close = false;                           // after this answer
  std::optional<FileBody> file = {};            // instead of `body`
  std::optional<std::uint64_t> announced = {};  // Content-Length of a HEAD's answer
  // Instead of `body`: asked four times a second, where the handler was, for what comes next, until
  // the client has gone.
  std::function<std::string()> more = {};
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// The answering side of one request whose body may be of any size.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // False: the answer is known from the head alone, the body is of no use.
  virtual bool wants_body() const = 0;
  virtual void take(std::string_view bytes) = 0;  // the next bytes of the body
  virtual HttpResponse finish() = 0;              // the body is complete (or was not wanted)
};
// Null: not a request to be streamed. Called in any of the workers' threads.
using HttpStreams = std::function<std::unique_ptr<HttpStream>(const HttpRequest& head)>;

}  // namespace spotter::emulator
