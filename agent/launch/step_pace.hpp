// The trainer's speed over its last two to four minutes, by the steps that it reports. Pure.
//
// A pause (an evaluation, a checkpoint that holds training up, hibernation) is none of it: within
// so short a time it would make what is left of the work look several times as long. Pauses that
// come again and again are in the pace over all.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/base/names.hpp"

namespace spotter::launch {

class StepPace {
 public:
  void observe(std::uint64_t step, Time now);
  std::optional<double> per_second() const;

 private:
  struct Mark {
    std::uint64_t step = 0;
    Time at{};
  };
  // The steps and the time between two reports.
  struct Stretch {
    std::uint64_t steps = 0;
    Duration time{};
    double per_step() const;  // REQUIRES: steps > 0
  };
  static Stretch between(const Mark& from, const Mark& to);

  std::optional<Mark> older_;
  Mark newer_, last_;
  Stretch slowest_, slowest_of_newer_;  // since older_, and since newer_; no steps: none yet
};

}  // namespace spotter::launch
