// One HTTP exchange on a reused libcurl handle. Private to agent/s3.
#pragma once

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "agent/s3/values.hpp"

namespace spotter::s3 {

class Exchange {
 public:
  // Neither copied nor moved: libcurl keeps pointers into it.
  Exchange();
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  struct Plan {
    std::string method;
    std::string url;
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
  void prepare(Plan plan);

  CURL* handle() const { return easy_; }
  Answer& answer() { return answer_; }
  std::size_t received() const { return received_; }           // bytes that are in `into`
  const std::string& objection() const { return objection_; }  // of `check`
  bool too_long() const { return too_long_; }
  // Of an exchange that has ended: from the request to the answer's first byte, and from there on.
  std::chrono::microseconds waited() const;
  std::chrono::microseconds lasted() const;
  std::string message(CURLcode code) const;

 private:
  void set_method();
  std::chrono::microseconds time_of(CURLINFO what) const;
  bool take_header(std::string_view line);
  bool take_body(std::string_view bytes);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);

  CURL* easy_;
  curl_slist* headers_ = nullptr;
  Plan plan_;
  Answer answer_;
  std::size_t received_ = 0;
  std::string objection_;
  bool too_long_ = false;
  std::array<char, CURL_ERROR_SIZE> message_{};
};

}  // namespace spotter::s3
