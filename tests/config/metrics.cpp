// `metrics:` of job.yaml: the log that a trainer writes for itself.
#include <gtest/gtest.h>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

std::string problem_with(const std::string& yaml) {
  const auto job = parse_job(smallest_and("metrics: " + yaml), as_root);
  return job ? "" : describe(job.error(), "job.yaml");
}

TEST(MetricsLog, IsAFileAndWhatItsColumnsAreCalled) {
  const auto job = parse_job(
      smallest_and("metrics: {csv: lightning_logs/version_*/metrics.csv, columns: {step: batch, "
                   "val_accuracy: top 1}}"),
      as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->metrics->file(), "lightning_logs/version_*/metrics.csv");
  EXPECT_EQ(job->metrics->columns,
            (std::map<std::string, std::string>{{"step", "batch"}, {"val_accuracy", "top 1"}}));
  const auto lines = parse_job(smallest_and("metrics: {json_lines: log.jsonl}"), as_root);
  ASSERT_TRUE(lines) << describe(lines.error(), "job.yaml");
  EXPECT_EQ(lines->metrics->json_lines, "log.jsonl");
  EXPECT_EQ(lines->metrics->file(), "log.jsonl");
  EXPECT_FALSE(parse_job(smallest_and(""), as_root)->metrics);
}

TEST(MetricsLog, IsOneFileBelowTheMount) {
  EXPECT_EQ(problem_with("{columns: {step: batch}}"),
            "job.yaml:4:10: metrics: names no file: give 'csv' or 'json_lines', such as csv: "
            "training.csv\n");
  EXPECT_EQ(problem_with("{csv: a.csv, json_lines: b.jsonl}"),
            "job.yaml:4:35: metrics.json_lines: 'csv' is given, too: which is it?\n");
  EXPECT_NE(problem_with("{csv: /var/log/a.csv}").find("metrics.csv: '/var/log/a.csv' is absolute"),
            std::string::npos);
  EXPECT_NE(problem_with("{csv: ../a.csv}").find("must not leave the mount"), std::string::npos);
  EXPECT_NE(problem_with("{json_lines: metrics.jsonl}").find("metrics.jsonl is Spotter's own"),
            std::string::npos);
}

TEST(MetricsLog, HasNamesThatAMetricMayHave) {
  EXPECT_NE(problem_with("{csv: a.csv, columns: {time: t}}")
                .find("metrics.columns.time: is no name for a metric: letters, digits and _.-/"),
            std::string::npos);
  EXPECT_NE(problem_with("{csv: a.csv, columns: {val_loss: \"\"}}")
                .find("metrics.columns.val_loss: expected a column's name"),
            std::string::npos);
  std::string many;
  for (int i = 0; i < 21; ++i) many += "m" + std::to_string(i) + ": c" + std::to_string(i) + ", ";
  EXPECT_NE(problem_with("{csv: a.csv, columns: {" + many + "}}")
                .find("metrics.columns: has more than 20 names"),
            std::string::npos);
}

}  // namespace
}  // namespace spotter::config
