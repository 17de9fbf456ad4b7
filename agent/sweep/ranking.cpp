#include "agent/sweep/ranking.hpp"

#include <algorithm>

namespace spotter::sweep {
namespace {

bool anybody_has(const std::vector<Summary>& all, const std::string& metric) {
  return std::ranges::any_of(
      all, [&](const Summary& each) { return last_value(each, metric).has_value(); });
}

Ranking of_what_is_there(const std::vector<Summary>& all) {
  for (const char* metric : {"val_accuracy", "val_loss", "accuracy", "loss"})
    if (anybody_has(all, metric)) return {metric, largest_is_best(metric).value_or(false), ""};
  return {};
}

int group_of(const Summary& summary) {
  if (summary.state == Summary::State::Done) return summary.stopped_early.empty() ? 0 : 1;
  if (summary.state == Summary::State::Failed) return 3;
  return summary.state == Summary::State::Waiting ? 4 : 2;
}

}  // namespace

std::optional<double> last_value(const Summary& summary, const std::string& metric) {
  const auto last = summary.curve.last();
  return last ? metric_of(*last, metric) : std::nullopt;
}

Ranking ranking_of(const std::vector<Summary>& all, const std::optional<Objective>& objective) {
  if (objective && anybody_has(all, objective->metric))
    return {objective->metric, objective->largest_is_best, ""};
  Ranking instead = of_what_is_there(all);
  const bool of_training = instead.metric == "accuracy" || instead.metric == "loss";
  const std::string by =
      instead.metric == "index"
          ? "nor has any reported something else to compare, so they come in their order"
          : "so the experiments are compared by " + instead.metric +
                (of_training ? " of the training" : "");
  if (objective)
    instead.note =
        "no experiment has reported " + objective->metric + ", the sweep's objective, " + by;
  else if (of_training)
    instead.note = "no experiment has reported val_accuracy or val_loss, " + by;
  return instead;
}

std::vector<std::size_t> best_first(const std::vector<Summary>& all, const Value& value,
                                    bool largest_first) {
  struct Key {
    int group;
    bool lacks;
    double value;
    std::size_t index, at;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Key> keys;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const auto its = value(all[at]);
    const double sign = largest_first ? -1 : 1;
    keys.push_back({group_of(all[at]), !its, sign * its.value_or(0), all[at].index, at});
  }
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return (a <=> b) < 0; });
  std::vector<std::size_t> places;
  places.reserve(keys.size());
  for (const Key& key : keys) places.push_back(key.at);
  return places;
}

}  // namespace spotter::sweep
