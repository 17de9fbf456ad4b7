// A trainer's own log of metrics.
#include "agent/wire/metric_log.hpp"

#include <cmath>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

void examine_log(wire::LogKind kind, std::string_view bytes, const wire::LogColumns& columns) {
  wire::MetricLog log(kind, columns);
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    const auto point = log.take(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (!point) continue;
    must(point->step < 1ULL << 53, "a step is a whole number that a double holds");
    must(point->loss || point->accuracy || !point->metrics.empty(), "a point has a value");
    must(std::isfinite(point->loss.value_or(0)), "a loss is finite");
    must(std::isfinite(point->accuracy.value_or(0)), "an accuracy is finite");
    must(point->metrics.size() <= most_metrics, "a point has so many metrics at most");
    for (const auto& [name, value] : point->metrics)
      must(is_metric_name(name) && std::isfinite(value), "a metric has a name and is finite");
    wire::Curve curve;
    curve.add(*point);
    must(wire::parse_curve(to_lines(curve)).curve.points() == curve.points(),
         "the curve is read as it is written");
  }
}

}  // namespace

void examine(std::string_view bytes) {
  const wire::LogColumns columns{{"step", "batch"}, {"val_loss", "v"}};
  for (const auto kind : {wire::LogKind::Csv, wire::LogKind::JsonLines}) {
    examine_log(kind, bytes, {});
    examine_log(kind, bytes, columns);
  }
}

}  // namespace spotter::fuzz
