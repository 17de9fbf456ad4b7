#include "agent/config/objective.hpp"

#include <algorithm>
#include <array>

namespace spotter::sweep {
namespace {

constexpr std::array<std::string_view, 8> large = {"accuracy",  "acc",    "auc", "f1",
                                                   "precision", "recall", "iou", "bleu"};
constexpr std::array<std::string_view, 6> small = {"loss", "error", "mae",
                                                   "mse",  "rmse",  "perplexity"};

}  // namespace

std::optional<bool> largest_is_best(std::string_view metric) {
  const auto word = metric.substr(metric.find_last_of("_/.-") + 1);  // npos + 1 is 0
  if (std::find(large.begin(), large.end(), word) != large.end()) return true;
  if (std::find(small.begin(), small.end(), word) != small.end()) return false;
  return std::nullopt;
}

}  // namespace spotter::sweep
