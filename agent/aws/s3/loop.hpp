// libcurl's multi interface on an epoll of its own, for the one thread that turns it. Private to
// agent/aws/s3.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <optional>
#include <unordered_map>

namespace spotter::s3 {

inline constexpr std::chrono::milliseconds connect_limit{5'000};
// A server that says nothing for so long will not: another connection may reach another one.
inline constexpr std::chrono::seconds silence_limit{20};

// What a loop turns.
class Turned {
 public:
  virtual ~Turned() = default;
  // libcurl is done with the handle whose CURLOPT_PRIVATE this is (a Turned*). It is still added.
  virtual void finished(CURLcode code) = 0;
  // Something can be done with the file that is watched.
  virtual void ready() {}
};

class Loop {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void add(CURL* easy);
  void remove(CURL* easy);  // what is not finished has its connection closed

  void watch(int file, bool for_writing, Turned& who);
  void forget(int file);

  // What is ready, after waiting for it at most so long.
  void turn(std::chrono::milliseconds at_most);

  int descriptor() const { return epoll_; }
  std::optional<Instant> next() const { return timer_; }  // when libcurl wants to be turned again

 private:
  static int on_socket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int on_timer(CURLM* multi, long milliseconds, void* self);
  void act(curl_socket_t socket, int events);
  void report_ended();

  CURLM* multi_ = nullptr;  // from the first handle on: what it loads takes time
  int epoll_;
  std::optional<Instant> timer_;
  std::unordered_map<int, Turned*> watched_;
};

}  // namespace spotter::s3
