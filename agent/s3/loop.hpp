// libcurl's multi interface on an epoll of its own, for the one thread that turns it. Private to
// agent/s3.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <functional>
#include <optional>

#include "agent/s3/exchange.hpp"

namespace spotter::s3 {

class Loop {
 public:
  using Instant = std::chrono::steady_clock::time_point;
  using Ended = std::function<void(Exchange&, CURLcode)>;

  explicit Loop(Ended ended);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void add(Exchange& exchange);
  void remove(Exchange& exchange);  // its connection is closed

  // What is ready, after waiting for it at most so long.
  void turn(std::chrono::milliseconds at_most);

  int descriptor() const { return epoll_; }
  std::optional<Instant> next() const { return timer_; }  // when libcurl wants to be turned again

 private:
  static int on_socket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int on_timer(CURLM* multi, long milliseconds, void* self);
  void act(curl_socket_t socket, int events);
  void report_ended();

  Ended ended_;
  CURLM* multi_;
  int epoll_;
  std::optional<Instant> timer_;
};

}  // namespace spotter::s3
