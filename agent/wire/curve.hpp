// A learning curve, the content of `metrics.jsonl`: one JSON object a line, one line a step at
// most, the steps ascending. Users read it with pandas.read_json(path, lines=True). No I/O.
//
//   {"step":1200,"epoch":2,"loss":0.31,"accuracy":0.9,"val_loss":0.4,"time":1700000000.25}
//
// Each other member that is a number is a metric of that name (base/metrics.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "agent/base/metrics.hpp"

namespace spotter::wire {

struct CurvePoint {
  std::uint64_t step = 0;
  std::optional<std::uint64_t> epoch;
  std::optional<double> loss, accuracy;  // finite
  double time = 0;                       // seconds since 1970
  MetricValues metrics = {};
  bool operator==(const CurvePoint&) const = default;
};

// The point's value of this name: "loss", "accuracy", or another metric's.
std::optional<double> metric_of(const CurvePoint& point, std::string_view name);

class Curve {
 public:
  // Removes points of later steps, since the trainer went back to this one. Keeps the values of a
  // point of the same step that the new one lacks. Metrics beyond the curve's first `most_metrics`
  // names are left out: a trainer may report another name at each step.
  void add(CurvePoint point);
  // The trainer continues from `step`: removes the points of later steps.
  void resume(std::uint64_t step);
  // Adds all points of `later`, one by one.
  void append(const Curve& later);
  // Keeps `most` points at most (two at least), evenly spread over the steps, the last one
  // included. A value that only a removed point has moves to its later neighbour.
  void thin(std::size_t most);

  const std::vector<CurvePoint>& points() const { return points_; }
  // The newest known value of each field. None: there is no point.
  std::optional<CurvePoint> last() const;
  // The names of all metrics that were added, in alphabetical order.
  const std::set<std::string, std::less<>>& metric_names() const { return names_; }

 private:
  std::vector<CurvePoint> points_;
  std::set<std::string, std::less<>> names_;
};

std::string to_lines(const Curve& curve);

// Leaves out and counts lines that are no point (cut off, foreign, an infinite loss) and those of a
// later `version` (absent: 1); of the latter `newer` tells a person.
struct ReadCurve {
  Curve curve;
  std::size_t foreign = 0;
  std::string newer;
};
ReadCurve parse_curve(std::string_view lines);

}  // namespace spotter::wire
