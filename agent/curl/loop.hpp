// libcurl's multi interface on files of its own, for the one thread that turns it.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <unordered_map>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/curl/easy.hpp"

namespace spotter::curl {

// The owner of a handle or a file, which the loop calls back.
class Turned {
 public:
  virtual ~Turned() = default;
  // libcurl is done with the handle that was added with this. It is still added.
  virtual void finished(CURLcode code) = 0;
  // Something can be done with the file that is watched.
  virtual void ready() {}
};

// The files that a loop waits for.
class Files {
 public:
  Files();
  ~Files();
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  bool set(int file, short events);  // of poll(2)
  void forget(int file);
  std::vector<pollfd> wait(int milliseconds);  // those with which something can be done

  // Readable when wait() has one. -1: nothing says so, and whoever waits looks now and then.
  int descriptor() const { return epoll_; }

 private:
  int epoll_ = -1;
#ifdef SPOTTER_CLIENT
  std::unordered_map<int, short> events_;
#endif
};

// A pipe of which no program that is started gets an end, unless it is given one.
bool open_pipe(std::array<int, 2>& ends);

class Loop {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // So many idle connections are kept.
  explicit Loop(long most_idle) : most_idle_(most_idle) {}
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Other than CURLM_OK: it was not added, and does not finish.
  CURLMcode add(Easy& easy, Turned& who);
  void remove(Easy& easy);  // what is not finished has its connection closed

  bool watch(int file, bool for_writing, Turned& who);  // false: the kernel refuses
  void forget(int file);

  // Does what is ready, after waiting for it at most so long.
  void turn(std::chrono::milliseconds at_most);

  int descriptor() const { return files_.descriptor(); }
  std::optional<Instant> next() const { return timer_; }  // when libcurl wants to be turned again

 private:
  static int on_socket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int on_timer(CURLM* multi, long milliseconds, void* self);
  void act(curl_socket_t socket, int events);
  void report_ended();

  long most_idle_;
  CURLM* multi_ = nullptr;  // from the first handle on: what it loads takes time
  Files files_;
  std::optional<Instant> timer_;
  std::unordered_map<int, Turned*> watched_;
};

// Ends a loop's wait from another thread. Rings that come before the loop turns are one.
class Bell final : public Turned, Pinned {
 public:
  explicit Bell(Loop& loop);
  ~Bell() override;

  bool is_open() const { return ends_[0] >= 0; }  // false: the process can have no more files
  // The loop's thread then sees all that was done before.
  void ring();

 private:
  void finished(CURLcode) override {}  // it has no handle
  void ready() override;

  Loop& loop_;
  std::array<int, 2> ends_{-1, -1};  // a byte lies between them, or is about to, while `rung_`
  std::atomic<bool> rung_ = false;
};

}  // namespace spotter::curl
