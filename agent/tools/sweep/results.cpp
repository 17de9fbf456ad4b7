#include "agent/tools/sweep/results.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>

namespace spotter::command {
namespace {

using sweep::Summary;
using wire::CurvePoint;

template <class T>
std::optional<double> as_number(const std::optional<T>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

struct Metric {
  const char* name;
  bool largest_first;
};
constexpr std::array<Metric, 7> metrics = {{{"accuracy", true},
                                            {"loss", false},
                                            {"epoch", true},
                                            {"step", true},
                                            {"seconds", false},
                                            {"attempts", false},
                                            {"index", false}}};

std::optional<double> known_value(const Summary& summary, std::string_view metric) {
  const auto last = summary.curve.last();
  if (metric == "accuracy" || metric == "loss")
    return last ? wire::metric_of(*last, metric) : std::nullopt;
  if (metric == "epoch") return last ? as_number(last->epoch) : std::nullopt;
  if (metric == "step") return last ? as_number(std::optional(last->step)) : std::nullopt;
  if (metric == "attempts") return static_cast<double>(summary.attempts);
  if (metric == "index") return static_cast<double>(summary.index);
  return summary.attempts > 0 ? std::optional(summary.seconds) : std::nullopt;
}

const Metric* find_metric(const std::string& name) {
  const auto* const found = std::find_if(metrics.begin(), metrics.end(),
                                         [&](const Metric& metric) { return name == metric.name; });
  return found == metrics.end() ? nullptr : found;
}

std::optional<double> parameter_value(const Summary& summary, const std::string& name) {
  const std::string text = parameter_text(summary, name);
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failed == std::errc{} && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> value_of(const Summary& summary, const std::string& metric) {
  if (find_metric(metric) != nullptr) return known_value(summary, metric);
  // A trainer may report one of its parameters: lr.
  if (!parameter_text(summary, metric).empty()) return parameter_value(summary, metric);
  return sweep::last_value(summary, metric);
}

bool any_has(const Summaries& all, const std::string& metric) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Summary& summary) { return value_of(summary, metric).has_value(); });
}

std::string names_of_metrics(const Summaries& all) {
  std::string names;
  const auto add = [&](const std::string& name) {
    if (any_has(all, name)) names += (names.empty() ? "" : ", ") + name;
  };
  for (const Metric& metric : metrics) add(metric.name);
  for (const std::string& name : parameter_names(all)) add(name);
  const auto parameters = parameter_names(all);
  for (const std::string& name : metric_names(all))
    if (std::ranges::find(parameters, name) == parameters.end()) add(name);
  return names;
}

// --- CSV
// Exact, and not longer than necessary.
std::string number(double value) {
  std::array<char, 64> text{};
  return {text.data(), std::to_chars(text.begin(), text.end(), value).ptr};
}

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char each : text) quoted += each == '"' ? std::string("\"\"") : std::string(1, each);
  return quoted + "\"";
}

template <class T>
std::string or_nothing(const std::optional<T>& value) {
  return value ? number(static_cast<double>(*value)) : std::string();
}

std::string csv_row(const Summary& summary, const std::vector<std::string>& parameters,
                    const std::vector<std::string>& metrics) {
  const CurvePoint last = summary.curve.last().value_or(CurvePoint{});
  std::string row = std::to_string(summary.index) + "," + sweep::to_text(summary.state);
  for (const std::string& name : parameters) row += "," + field(parameter_text(summary, name));
  row += "," + or_nothing(last.epoch) + ",";
  row += summary.curve.points().empty() ? std::string() : std::to_string(last.step);
  row += "," + or_nothing(last.loss) + "," + or_nothing(last.accuracy);
  for (const std::string& name : metrics) row += "," + or_nothing(metric_of(last, name));
  row += "," + number(summary.seconds) + "," + std::to_string(summary.attempts);
  return row + "," + field(summary.model);
}

}  // namespace

std::vector<std::string> metric_names(const Summaries& all) {
  std::set<std::string> names;
  for (const Summary& summary : all)
    if (const auto last = summary.curve.last())
      for (const auto& [name, value] : last->metrics) names.insert(name);
  return {names.begin(), names.end()};
}

std::vector<std::string> parameter_names(const Summaries& all) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Summary& summary : all) {
    for (const sweep::Parameter& parameter : summary.parameters)
      if (seen.insert(parameter.name).second) names.push_back(parameter.name);
  }
  return names;
}

std::vector<std::string> differing(const Summaries& all) {
  std::vector<std::string> names = parameter_names(all);
  std::erase_if(names, [&](const std::string& name) {
    const std::string first = parameter_text(all.front(), name);
    return std::all_of(all.begin(), all.end(), [&](const Summary& summary) {
      return parameter_text(summary, name) == first;
    });
  });
  return names;
}

std::string parameter_text(const Summary& summary, const std::string& name) {
  for (const sweep::Parameter& parameter : summary.parameters)
    if (parameter.name == name) return parameter.text;
  return {};
}

std::string short_number(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.5g", value);
  return text.data();
}

Result<SortOrder> sort_order(const Summaries& all, const std::string& asked,
                             const std::optional<sweep::Objective>& objective) {
  if (asked.empty()) {
    sweep::Ranking ranking = sweep::ranking_of(all, objective);
    return SortOrder{ranking.metric, ranking.largest_first, ranking.note};
  }
  const auto colon = asked.find(':');
  const std::string name = asked.substr(0, colon);
  const std::string way = colon == std::string::npos ? "" : asked.substr(colon + 1);
  if (colon != std::string::npos && way != "min" && way != "max")
    return failure("'" + asked + "' ends neither with :min nor with :max");
  if (!any_has(all, name))
    return failure("no experiment has a metric '" + name +
                   "'; there are: " + names_of_metrics(all));
  const Metric* known = find_metric(name);
  const bool largest =
      known != nullptr ? known->largest_first : sweep::largest_is_best(name).value_or(false);
  return SortOrder{name, way.empty() ? largest : way == "max"};
}

void sort(Summaries& all, const SortOrder& order) {
  const auto value = [&](const Summary& summary) { return value_of(summary, order.metric); };
  Summaries sorted;
  sorted.reserve(all.size());
  for (const std::size_t place : sweep::best_first(all, value, order.largest_first))
    sorted.push_back(std::move(all[place]));
  all = std::move(sorted);
}

std::string to_csv(const Summaries& sorted) {
  std::set<std::string> own = {"index",    "state",   "epoch",    "step",  "loss",
                               "accuracy", "seconds", "attempts", "model", "stopped_early"};
  const std::vector<std::string> metrics = metric_names(sorted);
  own.insert(metrics.begin(), metrics.end());
  const std::vector<std::string> parameters = parameter_names(sorted);
  std::string csv = "index,state";
  for (const std::string& name : parameters)
    csv += (own.contains(name) ? ",parameter." : ",") + name;
  csv += ",epoch,step,loss,accuracy";
  for (const std::string& name : metrics) csv += "," + name;
  const bool early = std::ranges::any_of(
      sorted, [](const Summary& summary) { return !summary.stopped_early.empty(); });
  csv += early ? ",seconds,attempts,model,stopped_early\n" : ",seconds,attempts,model\n";
  for (const Summary& summary : sorted) {
    csv += csv_row(summary, parameters, metrics);
    csv += (early ? "," + field(summary.stopped_early) : "") + "\n";
  }
  return csv;
}

std::string to_json(const Summaries& sorted) {
  std::string json = "[";
  for (const Summary& summary : sorted) {
    std::string one = sweep::to_json(summary);
    one.pop_back();  // its newline
    json += (json.size() > 1 ? ",\n" : "\n") + one;
  }
  return json + "\n]\n";
}

}  // namespace spotter::command
