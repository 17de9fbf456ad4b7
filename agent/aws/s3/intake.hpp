// A request, and what has come of its answer. Private to agent/aws/s3.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "agent/aws/s3/values.hpp"

namespace spotter::s3 {

inline constexpr std::chrono::milliseconds connect_limit{5'000};
// A server that says nothing for so long will not: another connection may reach another one.
inline constexpr std::chrono::seconds silence_limit{20};

struct Plan {
  std::string method;
  std::string base;    // http://127.0.0.1:4566
  std::string target;  // /bucket/key?query, escaped
  std::string host;    // as the Host header has it
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
  // From the request to the answer's first byte, and from there on.
  std::chrono::microseconds waited{0};
  std::chrono::microseconds lasted{0};
};

class Intake {
 public:
  void begin(Plan plan);
  const Plan& plan() const { return plan_; }
  const Answer& answer() const { return taken_.answer; }

  // False: no more is wanted.
  bool take_header(std::string_view line);
  bool take_body(std::string_view bytes);

  // The place for the body's next bytes, which saves a copy; empty: take_body() keeps them. put()
  // says how many were written there.
  std::span<char> room() const;
  void put(std::size_t bytes);

  Taken end(CURLcode code, std::string message);

 private:
  Plan plan_;
  Taken taken_;
};

}  // namespace spotter::s3
