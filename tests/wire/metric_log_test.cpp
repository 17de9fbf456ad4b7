#include "agent/wire/metric_log.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace spotter::wire {
namespace {

std::vector<CurvePoint> points_of(MetricLog& log, const std::vector<std::string>& lines) {
  std::vector<CurvePoint> points;
  for (const std::string& line : lines)
    if (auto point = log.take(line)) points.push_back(*std::move(point));
  return points;
}

std::vector<CurvePoint> in_csv(const std::vector<std::string>& lines, LogColumns columns = {}) {
  MetricLog log(LogKind::Csv, std::move(columns));
  return points_of(log, lines);
}

std::vector<CurvePoint> in_json(const std::vector<std::string>& lines, LogColumns columns = {}) {
  MetricLog log(LogKind::JsonLines, std::move(columns));
  return points_of(log, lines);
}

// The form of keras.callbacks.CSVLogger; its lines end with \n, those of Python's csv with \r\n.
TEST(MetricLog, ReadsWhatKerasWrites) {
  const auto points =
      in_csv({"epoch,accuracy,loss,val_accuracy,val_loss\r",
              "0,0.9123333096504211,0.29,0.95,0.1650390625\r", "1,0.9626,NA,0.96,0.125\r"});
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0], (CurvePoint{0,
                                   0,
                                   0.29,
                                   0.9123333096504211,
                                   0,
                                   {{"val_accuracy", 0.95}, {"val_loss", 0.1650390625}}}));
  EXPECT_EQ(
      points[1],
      (CurvePoint{1, 1, std::nullopt, 0.9626, 0, {{"val_accuracy", 0.96}, {"val_loss", 0.125}}}));
}

// The form of lightning.pytorch.loggers.CSVLogger: one row for the training, one for the
// validation, of the same step.
TEST(MetricLog, ReadsWhatLightningWrites) {
  const auto points =
      in_csv({"epoch,step,train_loss,val_acc,val_loss", "0,49,0.5,,", "0,49,,0.8,0.75"});
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0], (CurvePoint{49, 0, 0.5, std::nullopt, 0, {}}));
  EXPECT_EQ(
      points[1],
      (CurvePoint{
          49, 0, std::nullopt, std::nullopt, 0, {{"val_accuracy", 0.8}, {"val_loss", 0.75}}}));
}

TEST(MetricLog, ReadsJsonLinesWithPythonsNumbers) {
  const auto points = in_json(
      {R"({"loss": 0.5, "grad_norm": NaN, "epoch": 0.5, "step": 10, "note": "NaN {\"a\""})",
       R"({"eval_loss": 0.25, "epoch": 1.0, "step": 20, "more": {"x": 1}, "big": -Infinity})",
       R"({"train_runtime": 3.5})", "{\"step\": 30, \"lo",
       R"({"loss": NaN, "step": 40, "note": "\ud800", "n": 20000000000000000000, "m": 1.5e15})"});
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[2].metrics, (MetricValues{{"m", 1.5e15}, {"n", 2e19}}));
  EXPECT_EQ(points[0], (CurvePoint{10, 0, 0.5, std::nullopt, 0, {}}));
  EXPECT_EQ(points[1], (CurvePoint{20, 1, std::nullopt, std::nullopt, 0, {{"val_loss", 0.25}}}));
}

TEST(MetricLog, CallsColumnsWhatJobYamlSays) {
  const LogColumns columns{{"step", "batch"}, {"val_accuracy", "top 1"}};
  const auto points =
      in_csv({"batch,step,top 1,val_acc,Learning Rate", "7,1,0.5,0.1,0.01"}, columns);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0], (CurvePoint{7,
                                   std::nullopt,
                                   std::nullopt,
                                   std::nullopt,
                                   0,
                                   {{"val_accuracy", 0.5}, {"Learning_Rate", 0.01}}}));
}

TEST(MetricLog, TakesNoNameThatHasAnotherMeaningInOurFormats) {
  const auto points = in_csv({"step,time,version,index,_hidden,x", "1,2,3,4,5,6"});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].metrics, (MetricValues{{"x", 6}}));
}

TEST(MetricLog, TakesAnotherSeparatorQuotesAndAByteOrderMark) {
  EXPECT_EQ(in_csv({"\xEF\xBB\xBF"
                    "epoch;loss",
                    "1;0.5"})
                .size(),
            1U);
  EXPECT_EQ(in_csv({"epoch\tloss", "1\t0.5"}).size(), 1U);
  const auto points =
      in_csv({"\"epoch\",\"the \"\"loss\"\", mean\",loss", "\"3\",\"a,b\",\" 0.5 \""});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0], (CurvePoint{3, 3, 0.5, std::nullopt, 0, {}}));
}

TEST(MetricLog, LeavesOutRowsThatAreNoWholeOnes) {
  // Its writer was killed in the second row, and went on behind it.
  EXPECT_EQ(in_csv({"epoch,loss", "1,0.5", "2,0.2,0.25", "3", "4,\"0.1", "-1,0.5", "nan,0.5", "5,",
                    "6,nan", "7,inf", "x,0.5", "", "   "})
                .size(),
            1U);
  EXPECT_TRUE(in_csv({"epoch,loss", "1,0.5" + std::string(longest_log_line, ' ')}).empty());
}

TEST(MetricLog, TakesAHeaderAgainWhereATrainerBegins) {
  const auto points =
      in_csv({"epoch,loss", "0,0.5", "epoch,loss", "1,0.25", "epoch,lr,loss", "2,0.1,0.125"});
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[2], (CurvePoint{2, 2, 0.125, std::nullopt, 0, {{"lr", 0.1}}}));
}

TEST(MetricLog, TakesSixteenNamesOfMetricsThoseOfJobYamlFirst) {
  std::string header = "step", row = "1";
  for (int i = 0; i < 40; ++i) {
    header += ",m" + std::to_string(i);
    row += "," + std::to_string(i);
  }
  const auto points = in_csv({header, row}, {{"best", "m39"}});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].metrics.size(), most_metrics);
  EXPECT_EQ(points[0].metrics.at("best"), 39);
  EXPECT_EQ(points[0].metrics.at("m14"), 14);
}

// YOLO's results.csv has it in the nineteenth column, with parentheses.
TEST(MetricLog, TakesTheWantedNameWhereverItsColumnIs) {
  std::string header = "epoch", row = "1";
  for (int i = 0; i < 20; ++i) {
    header += ",m" + std::to_string(i);
    row += "," + std::to_string(i);
  }
  header += ",metrics/mAP50-95(B)";
  row += ",0.75";
  const std::string wanted = name_of_column("metrics/mAP50-95(B)", {});
  MetricLog log(LogKind::Csv, {}, wanted);
  const auto points = points_of(log, {header, row});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(metric_of(points[0], wanted), 0.75);
  EXPECT_EQ(points[0].metrics.size(), most_metrics);
}

TEST(MetricLog, SaysWhyNothingIsRead) {
  MetricLog csv(LogKind::Csv, {});
  points_of(csv, {"batch,loss", "1,0.5"});
  EXPECT_EQ(csv.trouble(),
            "no column of it is the step or the epoch: say which one is, as in metrics: {columns: "
            "{step: NAME}}; it has batch, loss");
  points_of(csv, {"epoch,loss"});
  EXPECT_EQ(csv.trouble(), "");
  MetricLog bare(LogKind::Csv, {});
  points_of(bare, {"1,0.5"});
  EXPECT_EQ(bare.trouble(),
            "its first line has numbers: a header with the columns' names is needed");
  MetricLog lines(LogKind::JsonLines, {});
  points_of(lines, {"epoch,loss"});
  EXPECT_EQ(lines.trouble(), "its lines are no JSON objects");
  points_of(lines, {R"({"iteration": 1, "loss": 0.5})"});
  EXPECT_EQ(lines.trouble(), "");
}

}  // namespace
}  // namespace spotter::wire
