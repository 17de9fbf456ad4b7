// One HTTP exchange on a reused libcurl handle: all but reads, and whatever goes through a proxy.
// Private to agent/aws/s3.
#pragma once

#include <array>

#include "agent/aws/s3/intake.hpp"
#include "agent/aws/s3/loop.hpp"

namespace spotter::s3 {

class Exchange final : public Turned {
 public:
  using Done = std::function<void(Taken)>;

  // Neither copied nor moved: libcurl keeps pointers into it.
  explicit Exchange(Loop& loop);
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void begin(Plan plan, Done done);
  void finished(CURLcode code) override;

 private:
  void set_headers();
  void set_method();
  std::chrono::microseconds time_of(CURLINFO what) const;
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);

  Loop& loop_;
  CURL* easy_;
  curl_slist* headers_ = nullptr;
  Intake intake_;
  Done done_;
  std::array<char, CURL_ERROR_SIZE> message_{};
};

}  // namespace spotter::s3
