#include "agent/host/records.hpp"

#include "agent/io/files.hpp"
#include "agent/service/act/metrics.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/wire/curve.hpp"
#include "disk.hpp"

namespace spotter::act::host {
namespace {

using MetricsFile = Directory;

std::string lines(std::uint64_t from, std::uint64_t to) {
  wire::Curve curve;
  for (auto step = from; step <= to; ++step) curve.add({.step = step, .loss = 1, .time = 5});
  return to_lines(curve);
}

TEST_F(MetricsFile, GrowsAndGoesBackWithTheTrainer) {
  const auto path = directory_ / "metrics.jsonl";
  ASSERT_TRUE(keep_metrics(path, lines(1, 5), std::nullopt));
  ASSERT_TRUE(keep_metrics(path, lines(6, 8), std::nullopt));
  EXPECT_EQ(io::read_file(path, 1 << 20).value(), lines(1, 8));
  ASSERT_TRUE(keep_metrics(path, lines(6, 6), 4));
  EXPECT_EQ(io::read_file(path, 1 << 20).value(), lines(1, 4) + lines(6, 6));
}

TEST_F(MetricsFile, StaysSmallHoweverLongTheJob) {
  const auto path = directory_ / "metrics.jsonl";
  for (std::uint64_t minute = 0; minute < 20; ++minute)
    ASSERT_TRUE(keep_metrics(path, lines(minute * 600 + 1, minute * 600 + 600), std::nullopt));
  const auto kept = wire::parse_curve(io::read_file(path, 1 << 20).value()).curve;
  EXPECT_LE(kept.points().size(), 4096U);
  EXPECT_GE(kept.points().size(), 1000U);
  EXPECT_EQ(kept.points().back().step, 12'000U);
}

TEST_F(MetricsFile, ThatIsNotOursIsMovedAsideAndNeverLost) {
  const auto path = directory_ / "metrics.jsonl";
  const auto aside = directory_ / "metrics.jsonl.before";
  const std::string large(9U << 20, ' ');
  for (const std::string& theirs :
       {std::string("no curve\n{\"step\":1,\"loss\":1.0,\"time\":5.0}\n{\"st"),
        lines(1, 1).insert(1, "\"run\":\"a\","), lines(1, 1) + large}) {
    write("metrics.jsonl", theirs);
    const auto kept = keep_metrics(path, lines(2, 2), std::nullopt);
    ASSERT_TRUE(kept) << words_of(kept);
    EXPECT_NE(kept->find("it is metrics.jsonl.before now"), std::string::npos) << *kept;
    EXPECT_EQ(io::read_file(aside, 16U << 20).value(), theirs);
    const bool read = theirs.size() < large.size();
    EXPECT_EQ(io::read_file(path, 1 << 20).value(), lines(read ? 1 : 2, 2));
    EXPECT_EQ(keep_metrics(path, lines(3, 3), std::nullopt), "") << "ours by now";
    write("metrics.jsonl", theirs);
    EXPECT_EQ(kind_of(keep_metrics(path, lines(4, 4), std::nullopt)), "layout-unusable");
    EXPECT_EQ(io::read_file(path, 16U << 20).value(), theirs);
    EXPECT_EQ(io::read_file(aside, 16U << 20).value(), theirs);
    std::filesystem::remove(aside);
    std::filesystem::remove(path);
  }
}

TEST_F(MetricsFile, KeepsWhatAnEvaluationReports) {
  const auto path = directory_ / "metrics.jsonl";
  wire::Curve curve;
  curve.add({.step = 1, .loss = 0.5, .metrics = {{"val_loss", 0.25}}});
  ASSERT_TRUE(keep_metrics(path, to_lines(curve), std::nullopt));
  EXPECT_EQ(keep_metrics(path, lines(2, 2), std::nullopt), "") << "the file is ours";
  EXPECT_EQ(sweep::read_metrics(path).last()->metrics, (MetricValues{{"val_loss", 0.25}}));
}

// So many points, each with all metrics under the longest names, are read again.
TEST_F(MetricsFile, OfTheGreatestSizeIsReadAgain) {
  const auto path = directory_ / "metrics.jsonl";
  wire::Curve curve;
  for (std::uint64_t step = 1; step <= 4096; ++step) {
    wire::CurvePoint point{.step = step, .loss = 1.0 / 3, .accuracy = 1.0 / 3, .time = 1e9 / 3};
    for (std::size_t i = 0; i < most_metrics; ++i)
      point.metrics[std::string(longest_metric_name - 1, 'x') + static_cast<char>('a' + i)] =
          -1e-300 / 3;
    curve.add(point);
  }
  ASSERT_TRUE(keep_metrics(path, to_lines(curve), std::nullopt));
  EXPECT_EQ(keep_metrics(path, lines(5000, 5000), std::nullopt), "") << "the file is ours";
  EXPECT_EQ(sweep::read_metrics(path).last()->metrics.size(), most_metrics);
}

TEST_F(MetricsFile, IsNotKeptWhereThereIsNoFolder) {
  EXPECT_EQ(kind_of(keep_metrics(directory_ / "none/metrics.jsonl", lines(1, 1), std::nullopt)),
            "host-error");
}

wire::TrainerMessage at(std::uint64_t step) {
  wire::TrainerMessage message;
  message.progress = wire::Progress{.step = step};
  return message;
}

wire::TrainerMessage resumed(std::uint64_t step) {
  wire::TrainerMessage message;
  message.resumed_step = step;
  return message;
}

std::vector<std::uint64_t> steps_of(const Metrics::News& news) {
  std::vector<std::uint64_t> steps;
  for (const auto& point : news.curve.points()) steps.push_back(point.step);
  return steps;
}

TEST(Metrics, AreHandedOverOnceAndAgainWhenThatWasInVain) {
  Metrics metrics;
  EXPECT_TRUE(metrics.empty());
  metrics.on_message(resumed(10), {});
  EXPECT_TRUE(metrics.empty()) << "nothing to keep yet";
  for (const std::uint64_t step : {11, 12, 13}) metrics.on_message(at(step), {});
  Metrics::News first = metrics.take();
  EXPECT_EQ(first.resumed, 10U);
  EXPECT_TRUE(metrics.empty());
  metrics.on_message(at(14), {});
  metrics.on_message(resumed(12), {});
  metrics.on_message(at(15), {});
  metrics.put_back(std::move(first));
  const Metrics::News again = metrics.take();
  EXPECT_EQ(steps_of(again), (std::vector<std::uint64_t>{11, 12, 15}));
  EXPECT_EQ(again.resumed, 10U);
}

TEST(Metrics, OfAStorageThatTakesNothingAreBounded) {
  Metrics metrics;
  for (std::uint64_t step = 1; step <= 100'000; ++step) metrics.on_message(at(step), {});
  const auto steps = steps_of(metrics.take());
  EXPECT_LE(steps.size(), 2048U);
  EXPECT_GE(steps.size(), 500U);
  EXPECT_EQ(steps.back(), 100'000U);
}

}  // namespace
}  // namespace spotter::act::host
