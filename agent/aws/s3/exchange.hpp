// One HTTP exchange on a reused libcurl handle: all but reads, and whatever goes through a proxy.
// Private to agent/aws/s3.
#pragma once

#include "agent/aws/s3/intake.hpp"
#include "agent/curl/loop.hpp"

namespace spotter::s3 {

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
  bool take_header(std::string_view line) override { return intake_.take_header(line); }
  bool take_body(std::string_view bytes) override { return intake_.take_body(bytes); }

  curl::Loop& loop_;
  curl::Easy easy_;
  Intake intake_;
  Done done_;
};

}  // namespace spotter::s3
