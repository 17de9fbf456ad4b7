// S3's requests and answers over libcurl, each an exchange on a handle that is used again. Private
// to agent/aws/s3.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
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
  // wrong with them; then not a byte is written.
  std::function<std::string(const Answer&)> check;
  std::size_t* arrived = nullptr;  // grows by what is put into `into`; may be null
  std::uint64_t* moved = nullptr;  // grows by what comes in; may be null
};

struct Taken {
  CURLcode code = CURLE_OK;
  std::string message;  // of what went wrong
  Answer answer;
  std::size_t received = 0;  // bytes that are in `into`
  std::string objection;     // of `check`
  bool too_long = false;
};

class Exchange final : public curl::Turned, public curl::Sink {
 public:
  using Done = std::function<void(Taken)>;

  Exchange(curl::Loop& loop, const curl::TrustStore& trust);
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void begin(Plan plan, Done done);
  void finished(CURLcode code) override;

 private:
  bool take_header(std::string_view line) override;
  bool take_body(std::string_view bytes) override;

  curl::Loop& loop_;
  curl::Easy easy_;
  Plan plan_;
  Taken taken_;
  bool again_ = false;  // begun again, as its connection was closed already
  Done done_;
};

// Connections that are kept, as many as requests go out at once.
inline constexpr long most_idle = 512;

class Carriers {
 public:
  using Id = std::uint64_t;
  using Ended = std::function<void(Id, Taken)>;

  explicit Carriers(Ended ended);

  // Ended is called from within turn().
  void start(Id id, Plan plan);
  // Its connection is closed. Nothing happens when there is none.
  void drop(Id id) { exchanges_.erase(id); }
  std::size_t running() const { return exchanges_.size(); }

  void turn(std::chrono::milliseconds at_most) { loop_.turn(at_most); }
  int descriptor() const { return loop_.descriptor(); }
  std::optional<curl::Loop::Instant> next() const { return loop_.next(); }
  curl::Loop& loop() { return loop_; }  // for what else is to be turned

 private:
  Ended ended_;
  curl::TrustStore trust_ = curl::TrustStore::of_this_machine();
  curl::Loop loop_{most_idle};
  std::unordered_map<Id, std::unique_ptr<Exchange>> exchanges_;
  std::vector<std::unique_ptr<Exchange>> free_;
};

}  // namespace spotter::s3
