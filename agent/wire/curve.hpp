// A learning curve, as `metrics.jsonl` has it: one JSON object a line, one line a step at most, the
// steps ascending. For whoever reads it: pandas.read_json(path, lines=True). No I/O.
//
//   {"step":1200,"epoch":2,"loss":0.31,"accuracy":0.9,"time":1700000000.25}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spotter::wire {

struct CurvePoint {
  std::uint64_t step = 0;
  std::optional<std::uint64_t> epoch;
  std::optional<double> loss, accuracy;  // finite
  double time = 0;                       // seconds since 1970
  bool operator==(const CurvePoint&) const = default;
};

class Curve {
 public:
  // Whatever is there of a later step did not happen: the trainer went back. What is there of the
  // same step keeps what the new point does not say.
  void add(CurvePoint point);
  // The trainer goes on from there: what is there of later steps did not happen.
  void resume(std::uint64_t step);
  // All points of what came after, one by one.
  void append(const Curve& later);
  // At most so many (two at least) remain, evenly spread over the steps, the last one among them.
  // A loss or accuracy that is said only now and then is kept with its neighbour.
  void thin(std::size_t most);

  const std::vector<CurvePoint>& points() const { return points_; }
  // Of all, what was said last; no step when there is no point.
  std::optional<CurvePoint> last() const;

 private:
  std::vector<CurvePoint> points_;
};

std::string to_lines(const Curve& curve);

// Lines that are none of a curve (half-written, foreign, an infinite loss) are left out, and
// counted; so are those whose `version` (absent: 1) is a later one, which `newer` says.
struct ReadCurve {
  Curve curve;
  std::size_t foreign = 0;
  std::string newer;  // a sentence
};
ReadCurve parse_curve(std::string_view lines);

}  // namespace spotter::wire
