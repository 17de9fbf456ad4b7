// By which metric the experiments of a sweep are compared. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace spotter::sweep {

struct Objective {
  std::string metric;  // "val_accuracy", "loss"
  bool largest_is_best = true;
};

// What the last word of the name says: the largest accuracy is best, the smallest loss. None: it
// says nothing, a person has to.
std::optional<bool> largest_is_best(std::string_view metric);

}  // namespace spotter::sweep
