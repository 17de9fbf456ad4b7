// `checkpoints:` of job.yaml: files or folders.
#include <gtest/gtest.h>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

std::string problem_of(const std::string& yaml) {
  const auto job = parse_job(smallest_and(yaml), as_root);
  return job ? "" : describe(job.error(), "job.yaml");
}

TEST(Checkpoints, AreFoldersWhereTheirNamesAreGiven) {
  const auto job =
      parse_job(smallest_and("checkpoints: {directory: out, folders: checkpoint-*}"), as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->checkpoints.directory, "out");
  EXPECT_EQ(job->checkpoints.folders, "checkpoint-*");
  EXPECT_EQ(job->checkpoints.files, "");
  EXPECT_TRUE(job->checkpoints.has_patterns());
  EXPECT_FALSE(parse_job(smallest_and(""), as_root)->checkpoints.has_patterns());
}

TEST(Checkpoints, AreNamesAndNotPaths) {
  EXPECT_NE(problem_of("checkpoints: {folders: out/checkpoint-*}")
                .find("checkpoints.folders: 'out/checkpoint-*' has a '/' in it; a pattern is of a "
                      "folder's name, directly in the directory"),
            std::string::npos);
  EXPECT_NE(problem_of("checkpoints: {folders: ' '}").find("patterns such as checkpoint-*"),
            std::string::npos);
}

TEST(Checkpoints, AreEitherFilesOrFolders) {
  EXPECT_NE(problem_of("checkpoints: {files: '*.pt', folders: checkpoint-*}")
                .find("checkpoints.folders: 'files' is given, too: a checkpoint is one file or one "
                      "folder"),
            std::string::npos);
}

TEST(Checkpoints, OfASweepHaveAPlaceInS3ForEachExperiment) {
  auto job = parse_job(
      smallest_and("checkpoints: {folders: checkpoint-*, s3: \"s3://kept/run-${WHO}\"}"), as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->checkpoints_in_s3(), (wire::S3Location{"kept", "run-me/"}));
  job->experiment.emplace().index = 3;
  EXPECT_EQ(job->checkpoints_in_s3(), (wire::S3Location{"kept", "run-me/3/"}));
  EXPECT_FALSE(parse_job(smallest_and(""), as_root)->checkpoints_in_s3());
}

TEST(Checkpoints, InS3AreFolders) {
  EXPECT_NE(problem_of("checkpoints: {files: '*.pt', s3: s3://kept/run}")
                .find("checkpoints.s3: is for 'folders', which is not given"),
            std::string::npos);
  EXPECT_NE(problem_of("checkpoints: {folders: checkpoint-*, s3: kept/run}")
                .find("checkpoints.s3: 'kept/run' is no S3 URL: s3://bucket/key"),
            std::string::npos);
}

TEST(Checkpoints, HaveTheNamesOfOneSaveWhereTheyAreSaid) {
  const auto job = parse_job(
      smallest_and("checkpoints: {set: 'model_{step}.pt optim_{step}_rank*.pt'}"), as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->checkpoints.set, "model_{step}.pt optim_{step}_rank*.pt");
  EXPECT_FALSE(job->checkpoints.has_patterns());
  for (const char* wrong : {"' '", "'*.pt'", "'model_{epoch}.pt'", "'model_{step}_{rank}.pt'"})
    EXPECT_NE(problem_of("checkpoints: {set: " + std::string(wrong) + "}").find("checkpoints.set"),
              std::string::npos)
        << wrong;
}

TEST(Checkpoints, KeepTheBestByAMetric) {
  const auto job = parse_job(
      smallest_and("checkpoints: {files: '*.h5', keep_best: {metric: val_loss}}"), as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  ASSERT_TRUE(job->checkpoints.keep_best);
  EXPECT_EQ(job->checkpoints.keep_best->metric, "val_loss");
  EXPECT_FALSE(job->checkpoints.keep_best->largest_is_best);
  EXPECT_TRUE(parse_job(smallest_and("checkpoints: {keep_best: {metric: val_loss}}"), as_root));
  EXPECT_NE(problem_of("checkpoints: {files: '*.h5', keep_best: {metric: top5}}")
                .find("is the smallest or the largest top5 best?"),
            std::string::npos);
}

}  // namespace
}  // namespace spotter::config
