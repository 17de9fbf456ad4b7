// Histories written by hand, as an agent would write them: t0 plus seconds.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "agent/report/model.hpp"

namespace spotter::report {

inline constexpr double t0 = 1'700'000'000;

class Lines {
 public:
  explicit Lines(std::string instance) : instance_(std::move(instance)) {}
  // `more`: "\"step\":4", for example.
  Lines& at(double seconds, const std::string& what, const std::string& more = "") {
    lines_ += "{\"time\":" + std::to_string(t0 + seconds) + ",\"what\":\"" + what +
              "\",\"instance\":\"" + instance_ + "\"" + (more.empty() ? "" : "," + more) + "}\n";
    return *this;
  }
  Lines& began(double seconds, const std::string& zone = "us-west-2a", double price = 0.9) {
    return at(seconds, "began",
              R"("type":"g5.xlarge","zone":")" + zone + R"(","price":)" + std::to_string(price) +
                  ",\"booted\":" + std::to_string(t0 + seconds - 10));
  }
  Lines& phase(double seconds, const std::string& phase) {
    return at(seconds, "phase", R"("phase":")" + phase + "\"");
  }
  Lines& trains(double seconds, int step, int repeated = 0) {
    phase(seconds, "training");
    return at(seconds, "resumed",
              "\"step\":" + std::to_string(step) + ",\"repeated\":" + std::to_string(repeated));
  }
  Lines& notice(double seconds, double window, const std::string& action = "terminate") {
    return at(
        seconds, "notice",
        R"("action":")" + action + "\",\"deadline\":" + std::to_string(t0 + seconds + window));
  }
  Lines& checkpoint(double seconds, int step) {
    return at(seconds, "checkpoint", "\"step\":" + std::to_string(step) + ",\"seconds\":0.5");
  }
  Lines& ended(double seconds, const std::string& how, int step, int durable) {
    return at(seconds, "ended",
              R"("end":")" + how + "\",\"step\":" + std::to_string(step) +
                  ",\"checkpoint_step\":" + std::to_string(durable) + ",\"stall_seconds\":2");
  }
  Lines& left(double seconds, const std::string& why) {
    return at(seconds, "left", R"("why":")" + why + "\"");
  }
  const std::string& text() const { return lines_; }

 private:
  std::string instance_, lines_;
};

inline Input input_at(double now, const std::string& lines) {
  Input input;
  input.job = "speech";
  input.now = t0 + now;
  input.sources.push_back({{}, wire::parse_history(lines), {}});
  return input;
}

inline Model built(double now, const std::string& lines) { return build(input_at(now, lines)); }

// A machine that trains from second 20 on, and gets a notice at 100 to go at 220.
inline Lines announced(const std::string& instance, double second = 0) {
  Lines lines(instance);
  return lines.began(second)
      .trains(second + 20, 0)
      .notice(second + 100, 120)
      .checkpoint(second + 104.1, 810)
      .ended(second + 105, "stopped", 810, 810)
      .phase(second + 106, "releasing")
      .left(second + 110, "released");
}

}  // namespace spotter::report
