// Which experiment of a sweep is the best: by the job's objective, where any reported it. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/job/objective.hpp"
#include "agent/sweep/summary.hpp"

namespace spotter::sweep {

struct Ranking {
  std::string metric = "index";  // "index": no experiment has reported anything to compare
  bool largest_first = false;
  std::string note;  // a sentence without its full stop: why it is not by what was asked for
};

// By the objective; without one by the validation's accuracy, else its loss. Where no experiment
// has reported these, by the training's accuracy, else its loss.
Ranking ranking_of(const std::vector<Summary>& all, const std::optional<Objective>& objective);

// The newest value that it has reported.
std::optional<double> last_value(const Summary& summary, const std::string& metric);

// The places in `all`, the best first: finished experiments, then those that were stopped early
// (what more training would have made of them is not known), unfinished, failed and waiting ones;
// those without a value after those with one.
using Value = std::function<std::optional<double>(const Summary&)>;
std::vector<std::size_t> best_first(const std::vector<Summary>& all, const Value& value,
                                    bool largest_first);

}  // namespace spotter::sweep
