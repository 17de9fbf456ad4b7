// What the trainer reported of the metric by which its best checkpoint is kept: `values` in the run
// directory, which the agent writes and the guard reads.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::supervise {

struct ReportedValue {
  double time = 0;  // seconds since 1970, when the agent got it
  std::uint64_t step = 0;
  double value = 0;  // finite
  friend bool operator==(const ReportedValue&, const ReportedValue&) = default;
};

// In the order in which they came. Of those that came within half a second of each other the newest
// stays: a loss may be reported thousands of times a second, and a folder may be recorded five
// minutes after its last change.
class ReportedValues {
 public:
  static constexpr double spacing = 0.5;
  static constexpr std::size_t most = 1024;

  void add(const ReportedValue& value);
  const std::deque<ReportedValue>& all() const { return all_; }

 private:
  std::deque<ReportedValue> all_;
};

inline constexpr const char* values_name = "values";

std::string to_json(const ReportedValues& values);
// Fails for anything that to_json() cannot have written.
Result<ReportedValues> parse_values(std::string_view text);

}  // namespace spotter::supervise
