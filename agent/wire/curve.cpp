#include "agent/wire/curve.hpp"

#include <algorithm>
#include <cmath>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/base/version.hpp"

namespace spotter::wire {
namespace {

constexpr std::uint64_t known_curve = 1;

// Takes the value of `older` if `newer` has none.
template <class T>
void keep(std::optional<T>& newer, const std::optional<T>& older) {
  if (!newer) newer = older;
}

void keep_unsaid(CurvePoint& newer, const CurvePoint& older) {
  keep(newer.epoch, older.epoch);
  keep(newer.loss, older.loss);
  keep(newer.accuracy, older.accuracy);
  newer.metrics.insert(older.metrics.begin(), older.metrics.end());
}

std::optional<CurvePoint> parse_point(std::string_view line, std::string& newer) {
  const auto object = parse_json_object(line);
  if (!object) return std::nullopt;
  if (auto later = wire::newer(*object, "version", known_curve, "the learning curve")) {
    newer = std::move(later->message);
    return std::nullopt;
  }
  const auto step = count_field(*object, "step");
  if (!step) return std::nullopt;
  return CurvePoint{*step,
                    count_field(*object, "epoch"),
                    number_field(*object, "loss"),
                    number_field(*object, "accuracy"),
                    number_field(*object, "time").value_or(0),
                    metrics_in(*object)};
}

std::string to_line(const CurvePoint& point) {
  nlohmann::ordered_json line = {{"step", point.step}};
  if (point.epoch) line["epoch"] = *point.epoch;
  if (point.loss) line["loss"] = *point.loss;
  if (point.accuracy) line["accuracy"] = *point.accuracy;
  for (const auto& [name, value] : point.metrics) line[name] = value;
  line["time"] = std::round(point.time * 1000) / 1000;
  return line.dump() + "\n";
}

// Into how many parts of 2^shift steps the points fall. Powers of two: a point that one thinning
// keeps is the last of its part in the next, coarser thinning, too.
std::size_t parts(const std::vector<CurvePoint>& points, unsigned shift) {
  std::size_t parts = 0;
  for (std::size_t i = 0; i < points.size(); ++i)
    parts += i == 0 || points[i].step >> shift != points[i - 1].step >> shift;
  return parts;
}

}  // namespace

std::optional<double> metric_of(const CurvePoint& point, std::string_view name) {
  if (name == "loss") return point.loss;
  if (name == "accuracy") return point.accuracy;
  const auto found = point.metrics.find(name);
  return found == point.metrics.end() ? std::nullopt : std::optional(found->second);
}

void Curve::resume(std::uint64_t step) {
  while (!points_.empty() && points_.back().step > step) points_.pop_back();
}

void Curve::add(CurvePoint point) {
  resume(point.step);
  std::erase_if(point.metrics, [&](const auto& metric) {
    if (names_.size() < most_metrics) names_.insert(metric.first);
    return !names_.contains(metric.first);
  });
  if (!points_.empty() && points_.back().step == point.step) {
    keep_unsaid(point, points_.back());
    points_.pop_back();
  }
  points_.push_back(std::move(point));
}

void Curve::append(const Curve& later) {
  for (const CurvePoint& point : later.points_) add(point);
}

void Curve::thin(std::size_t most) {
  if (points_.size() <= most || most < 2) return;
  unsigned shift = 1;
  while (parts(points_, shift) > most) ++shift;
  std::vector<CurvePoint> thinned;
  for (CurvePoint point : points_) {
    if (!thinned.empty() && thinned.back().step >> shift == point.step >> shift) {
      keep_unsaid(point, thinned.back());
      thinned.pop_back();
    }
    thinned.push_back(std::move(point));
  }
  points_ = std::move(thinned);
}

std::optional<CurvePoint> Curve::last() const {
  if (points_.empty()) return std::nullopt;
  CurvePoint last = points_.back();
  for (auto each = points_.rbegin(); each != points_.rend(); ++each) keep_unsaid(last, *each);
  return last;
}

std::string to_lines(const Curve& curve) {
  std::string lines;
  for (const CurvePoint& point : curve.points()) lines += to_line(point);
  return lines;
}

ReadCurve parse_curve(std::string_view lines) {
  ReadCurve read;
  while (!lines.empty()) {
    const std::string_view line = take_until(lines, '\n');
    if (line.empty()) continue;
    if (const auto point = parse_point(line, read.newer))
      read.curve.add(*point);
    else
      ++read.foreign;
  }
  return read;
}

}  // namespace spotter::wire
