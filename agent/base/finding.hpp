// A check's finding before a job's start, for a person. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spotter {

struct Finding {
  enum class Verdict : std::uint8_t { Ok, Warn, Fail };
  std::string check;  // credentials, volume, zones, ...
  Verdict verdict = Verdict::Ok;
  std::string what;    // what was found
  std::string advice;  // what to do; empty if nothing
};
using Findings = std::vector<Finding>;

}  // namespace spotter
