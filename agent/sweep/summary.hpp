// What became of one experiment (host/summary.hpp reads it from its folder), and the JSON
// document that stands for it elsewhere (claim.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "agent/job/parameters.hpp"
#include "agent/wire/curve.hpp"

namespace spotter::sweep {

struct Summary {
  enum class State : std::uint8_t {
    Waiting,  // nothing of it is there
    Running,  // its account was written minutes ago
    Stopped,  // interrupted, to go on
    Failed,   // given up
    Done
  };
  std::size_t index = 0;
  Set parameters;
  State state = State::Waiting;
  std::uint64_t attempt = 0;   // the claim's token whose result this is; 0: there was no claim
  std::uint64_t attempts = 0;  // how often a trainer was started
  double seconds = 0;          // of instances, of all attempts
  std::string model;           // where the result is; empty: nowhere
  wire::Curve curve;           // of all attempts that count, `most_points` at most
  static constexpr std::size_t most_points = 500;
};

const char* to_text(Summary::State state);

// One line. Also says `step`, `epoch`, `loss` and `accuracy`, those of curve.last(), for people.
std::string to_json(const Summary& summary);
// Fails on what is no summary; unknown fields are those of a newer Spotter.
Result<Summary> parse_summary(std::string_view json);

}  // namespace spotter::sweep
