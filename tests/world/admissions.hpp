// Decides about a call before it is carried out: throttled, failed on request, denied, slow. By the
// action's name; "*" stands for every action.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tests/world/values.hpp"

namespace spotter::world {

struct Admission {
  std::optional<ApiError> error;  // answer this and do nothing (unless `carry_out`)
  Duration delay{0};
  bool drop = false;       // the caller gets no answer
  bool carry_out = false;  // with drop: the call is carried out all the same
};

class Admissions {
 public:
  // Uses up one fail_next.
  Admission admit(const std::string& action, Time now);
  bool is_denied(const std::string& action) const;

  void set_latency(const std::string& action, Duration latency) { latencies_[action] = latency; }
  void throttle(const std::string& action, Time until) { throttled_[action] = until; }
  // `code`: an error code, "timeout-carried-out" (done, but the answer is lost) or "timeout-lost".
  void fail_next(const std::string& action, int count, const std::string& code);
  void deny(const std::string& action, bool denied,
            const std::string& code = "UnauthorizedOperation");
  // Is there nothing that could refuse a call?
  bool idle() const { return throttled_.empty() && failing_.empty() && denied_.empty(); }
  void clear() { *this = {}; }

 private:
  struct FailNext {
    int count = 0;
    std::string code;
  };
  std::map<std::string, Duration> latencies_;
  std::map<std::string, Time> throttled_;  // until
  std::map<std::string, FailNext> failing_;
  std::map<std::string, std::string> denied_;  // and with which code
};

}  // namespace spotter::world
