#include "agent/wire/curve.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

Curve curve_of(const std::vector<std::uint64_t>& steps) {
  Curve curve;
  for (const auto step : steps) curve.add({.step = step, .loss = 1.0 / static_cast<double>(step)});
  return curve;
}

std::vector<std::uint64_t> steps_of(const Curve& curve) {
  std::vector<std::uint64_t> steps;
  for (const CurvePoint& point : curve.points()) steps.push_back(point.step);
  return steps;
}

using Steps = std::vector<std::uint64_t>;

TEST(Curve, ReadsWhatItWrites) {
  Curve curve;
  curve.add({1, 1, 0.5, std::nullopt, 1700000000.25});
  curve.add({2, std::nullopt, std::nullopt, 0.125, 1700000001});
  const std::string lines = to_lines(curve);
  EXPECT_EQ(lines,
            "{\"step\":1,\"epoch\":1,\"loss\":0.5,\"time\":1700000000.25}\n"
            "{\"step\":2,\"accuracy\":0.125,\"time\":1700000001.0}\n");
  const auto read = parse_curve(lines);
  EXPECT_EQ(read.curve.points(), curve.points());
  EXPECT_EQ(read.foreign, 0U);
}

TEST(Curve, HasMetricsByName) {
  Curve curve;
  curve.add({.step = 1, .loss = 0.5, .time = 1, .metrics = {{"val_loss", 0.25}}});
  curve.add({.step = 2, .loss = 0.25, .time = 2});
  curve.add({.step = 2, .metrics = {{"val/acc", 0.5}}});
  const std::string lines = to_lines(curve);
  EXPECT_EQ(lines,
            "{\"step\":1,\"loss\":0.5,\"val_loss\":0.25,\"time\":1.0}\n"
            "{\"step\":2,\"loss\":0.25,\"val/acc\":0.5,\"time\":0.0}\n");
  EXPECT_EQ(parse_curve(lines).curve.points(), curve.points());
  EXPECT_EQ(curve.last()->metrics, (MetricValues{{"val_loss", 0.25}, {"val/acc", 0.5}}));
  curve.resume(1);
  EXPECT_EQ(curve.last()->metrics, (MetricValues{{"val_loss", 0.25}}));
  const auto odd = parse_curve(R"({"step":1,"val_loss":"low","rate":[1],"a b":1,"lr":0.5})");
  EXPECT_EQ(odd.curve.last()->metrics, (MetricValues{{"lr", 0.5}}));
}

TEST(Curve, TakesTheFirstNamesOfMetricsOnly) {
  Curve curve;
  for (std::uint64_t step = 1; step <= 100; ++step)
    curve.add({.step = step, .metrics = {{"m" + std::to_string(step), 1.0}, {"m1", 2.0}}});
  EXPECT_EQ(curve.metric_names().size(), most_metrics);
  EXPECT_EQ(curve.points().size(), 100U);
  EXPECT_EQ(curve.points().back().metrics, (MetricValues{{"m1", 2}}));
}

TEST(Curve, LeavesOutWhatIsNoPoint) {
  const auto read = parse_curve(
      "{\"step\":1,\"loss\":0.5,\"time\":1}\n\nhello\n{\"loss\":1}\n[]\n{\"step\":-1}\n"
      "{\"step\":2,\"loss\":1e999}\n{\"step\":3,\"loss\":NaN}\n"
      "{\"step\":4,\"loss\":\"low\",\"time\":null}\n{\"step\":5,\"lo");
  EXPECT_EQ(steps_of(read.curve), (Steps{1, 4}));
  EXPECT_FALSE(read.curve.points()[1].loss);
  EXPECT_EQ(read.foreign, 7U);
}

TEST(Curve, HasNoStepTwiceAndNoneThatDidNotHappen) {
  Curve curve = curve_of({1, 2, 3, 4, 5});
  curve.resume(3);
  EXPECT_EQ(steps_of(curve), (Steps{1, 2, 3}));
  curve.append(curve_of({4, 7, 9}));
  curve.append(curve_of({6, 8}));
  EXPECT_EQ(steps_of(curve), (Steps{1, 2, 3, 4, 6, 8})) << "also of who does not say where from";
}

TEST(Curve, OneStepMaySayItsLossFirst) {
  Curve curve;
  curve.add({.step = 5, .epoch = 1, .loss = 0.5});
  curve.add({.step = 5, .accuracy = 0.75, .time = 9});
  EXPECT_EQ(curve.points(), (std::vector<CurvePoint>{{5, 1, 0.5, 0.75, 9}}));
}

TEST(Curve, StaysThinAndEvenHoweverLongItGrows) {
  Curve curve;
  for (std::uint64_t step = 1; step <= 100'000; ++step) {
    curve.add({.step = step, .loss = 1});
    if (curve.points().size() >= 400) curve.thin(200);
  }
  curve.thin(200);
  const Steps steps = steps_of(curve);
  EXPECT_LE(steps.size(), 200U);
  EXPECT_GE(steps.size(), 90U);
  EXPECT_EQ(steps.back(), 100'000U);
  std::uint64_t widest = steps[0];
  for (std::size_t i = 1; i < steps.size(); ++i) widest = std::max(widest, steps[i] - steps[i - 1]);
  EXPECT_LE(widest, 2 * 1024U) << "two parts of the coarsest";
}

TEST(Curve, ThinningKeepsWhatIsSaidRarely) {
  Curve curve = curve_of({});
  for (std::uint64_t step = 1; step <= 64; ++step) {
    CurvePoint point{.step = step, .loss = 1};
    if (step % 16 == 0) point.accuracy = static_cast<double>(step) / 100;
    if (step == 17) point.metrics["val_loss"] = 0.5;
    curve.add(point);
  }
  curve.thin(12);
  EXPECT_LE(curve.points().size(), 12U);
  Steps accuracies;
  for (const CurvePoint& point : curve.points())
    if (point.accuracy) accuracies.push_back(static_cast<std::uint64_t>(*point.accuracy * 100));
  EXPECT_EQ(accuracies.size(), 4U);
  EXPECT_EQ(curve.last()->accuracy, 0.64);
  EXPECT_EQ(curve.last()->loss, 1);
  EXPECT_EQ(curve.last()->metrics, (MetricValues{{"val_loss", 0.5}}));
  EXPECT_EQ(curve.last()->step, 64U);
}

TEST(Curve, OfANewerSpotterIsSaidAndNotMisread) {
  const auto read =
      parse_curve("{\"step\":1,\"loss\":2.0}\n{\"version\":2,\"step\":2,\"loss\":1.0}\n");
  EXPECT_EQ(read.curve.last()->step, 1U);
  EXPECT_NE(read.newer.find("the learning curve was written by a newer Spotter (format 2"),
            std::string::npos)
      << read.newer;
  EXPECT_EQ(parse_curve("{\"step\":1}\n{\"st").newer, "");
}

TEST(Curve, ThatIsEmptyHasNoLast) {
  Curve curve;
  curve.thin(2);
  curve.resume(7);
  EXPECT_FALSE(curve.last());
  EXPECT_EQ(to_lines(curve), "");
}

}  // namespace
}  // namespace spotter::wire
