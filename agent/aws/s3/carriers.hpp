// S3's requests and answers over libcurl, each an exchange on a handle that is used again, by the
// caller's thread or by several. Private to agent/aws/s3.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "agent/aws/s3/values.hpp"
#include "agent/curl/loop.hpp"

namespace spotter::s3 {

inline constexpr std::chrono::milliseconds connect_limit{5'000};
// A server that says nothing for so long will not: another connection may reach another one.
inline constexpr std::chrono::seconds silence_limit{20};

struct Plan {
  std::string method;
  std::string base;    // http://127.0.0.1:4566
  std::string target;  // /bucket/key?query, escaped
  Headers headers;
  std::string_view body;
  // A successful answer's body goes here, if this is not empty.
  std::span<char> into;
  // Asked when the headers are here and the body is to go to `into`: an empty text, or what is
  // wrong with them; then not a byte is written. In the thread that carries the exchange.
  std::function<std::string(const Answer&)> check;
  std::atomic<std::size_t>* arrived = nullptr;  // grows by what is put into `into`; may be null

  std::size_t bytes() const { return into.size() + body.size(); }
};

struct Taken {
  CURLcode code = CURLE_OK;
  std::string message;  // of what went wrong
  Answer answer;
  std::size_t received = 0;  // bytes that are in `into`
  std::string objection;     // of `check`
  bool too_long = false;
};

// All exchanges of a client, for the one thread that uses it. It carries them itself until that is
// more than one thread can: from then on those that carry bytes go to other threads, each to the
// one that has the fewest bytes under way.
class Carriers {
 public:
  using Id = std::uint64_t;
  using Ended = std::function<void(Id, Taken)>;

  Carriers(Threads limits, Ended ended);
  ~Carriers();

  // Ended is called from within turn().
  void start(Id id, Plan plan);
  // Their connections are closed, and what their plans name is not touched any more: waits for
  // that, a turn of each thread at most. Those that are none are passed over.
  void drop(std::span<const Id> ids);
  std::size_t running() const { return under_way_.size(); }

  void turn(std::chrono::milliseconds at_most);
  int descriptor() const;
  std::optional<curl::Loop::Instant> next() const;
  curl::Loop& loop();           // for what else is to be turned
  std::uint64_t moved() const;  // bytes that have come so far
  std::size_t threads() const { return 1 + others_.size(); }

 private:
  class Carrier;
  class Thread;
  struct UnderWay {
    Thread* other = nullptr;  // null: the asker's own thread
    std::size_t bytes = 0;
  };
  void ended(Id id, Taken taken);
  std::optional<UnderWay> take(Id id);  // it is not under way any more. None: it was not
  Thread* other_for(std::size_t bytes);
  bool are_busy();

  Threads limits_;
  Ended ended_;
  curl::TrustStore trust_ = curl::TrustStore::of_this_machine();
  std::unordered_map<Id, UnderWay> under_way_;
  std::unique_ptr<Carrier> own_;
  std::optional<curl::Bell> bell_;  // in its loop, from the first other thread on
  std::vector<std::unique_ptr<Thread>> others_;
  curl::Loop::Instant looked_at_{};
  std::thread::id looked_in_ = std::this_thread::get_id();
  std::chrono::nanoseconds seen_{0};  // the processor time of those that carry
};

}  // namespace spotter::s3
