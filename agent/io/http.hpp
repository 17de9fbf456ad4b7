// An HTTP client for one thread: libcurl's multi interface driven by an Asio io_context.
//
// It knows nothing of AWS: no signing, no retries, no redirects (a 3xx is an answer like any
// other). Connections are kept and reused; an idle one is closed after 60 s.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>

#include "agent/base/result.hpp"
#include "agent/io/asio.hpp"

namespace spotter::io {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // sent when it is not empty, or when the method is POST or PUT
  std::chrono::milliseconds connect_timeout{3'000};
  std::chrono::milliseconds timeout{30'000};      // the whole exchange, the connect included
  std::size_t response_limit = 8u * 1024 * 1024;  // a longer body ends as Unreadable
  bool fresh_connection = false;  // what must not be done twice: curl::Easy::use_own_connection()
  bool use_proxy = true;          // false: ignores http_proxy & co (link-local services)
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; of repeated ones the last
  std::string body;
  // CLOCK_BOOTTIME when the answer's last byte was here: comparable with spotter::Time.
  std::chrono::milliseconds received_at{0};

  std::string header(const char* name) const {  // empty: there is none
    const auto at = headers.find(name);
    return at == headers.end() ? std::string() : at->second;
  }
};

// Threading: used only from handlers of the one io_context, which a single thread runs.
// Lifetime: may be destroyed while calls are under way; those end as usual.
class HttpClient : Pinned {
 public:
  explicit HttpClient(asio::io_context& context);
  ~HttpClient();

  // Any status is a response; a CallError means that there is none: NotSent, Transient (a time-out,
  // or a connection that broke: the request may have been carried out), Permission (the server's
  // certificate is not accepted: nothing was sent) or Unreadable. Cancelling the coroutine (any
  // cancellation type that it lets through) drops the transfer and its connection and yields
  // Cancelled.
  asio::awaitable<Result<HttpResponse, CallError>> send(HttpRequest request);

  asio::any_io_executor executor() const;

 private:
  class Multi;
  struct Transfer;
  std::shared_ptr<Multi> multi_;
};

}  // namespace spotter::io
