// Numbers that a trainer reports by name beside its loss and accuracy: `val_loss`. Standard library
// only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace spotter {

using MetricValues = std::map<std::string, double, std::less<>>;  // finite

inline constexpr std::size_t most_metrics = 16;  // of one report, and of one learning curve
inline constexpr std::size_t longest_metric_name = 64;

// Names that have a place of their own in our formats: a metric of that name would look like it.
inline constexpr std::array<std::string_view, 18> reserved_metric_names = {
    "step",     "steps_total", "epoch",      "epochs_total", "loss",    "time",
    "accuracy", "version",     "experiment", "from",         "index",   "state",
    "seconds",  "attempts",    "model",      "parameters",   "metrics", "curve"};

// Letters, digits and `_.-/`, a letter first: a word in any of our formats, as `val_loss`, or
// Lightning's `val/loss`.
constexpr bool is_metric_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto fits = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '/';
  };
  return !name.empty() && name.size() <= longest_metric_name && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), fits) &&
         std::find(reserved_metric_names.begin(), reserved_metric_names.end(), name) ==
             reserved_metric_names.end();
}

}  // namespace spotter
