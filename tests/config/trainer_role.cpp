// The session policy: it leaves one job its part of the role that all jobs have.
#include "agent/config/trainer_role.hpp"

#include <gtest/gtest.h>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

Result<std::string> policy_of(const std::string& more) {
  const auto job = parse_job(
      "job: small\nstorage: {ebs: {tag: {Name: v}}}\ntrainer:\n  command: ./train.sh\n" + more,
      as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  return session_policy(*job, "aws-cn");
}

TEST(SessionPolicy, LeavesWhatTheJobNames) {
  const auto policy = policy_of(
      "  reads: s3://lists/images\n"
      "  writes: [s3://runs/mine]\n"
      "channels: {train: 's3://data/mnist/'}\n");
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(
      *policy,
      R"({"Version":"2012-10-17","Statement":[)"
      R"({"Effect":"Allow","NotAction":"s3:*","Resource":"*"},)"
      R"({"Effect":"Allow","Action":"s3:GetObject","Resource":["arn:aws-cn:s3:::data/mnist/*",)"
      R"("arn:aws-cn:s3:::lists/images/*","arn:aws-cn:s3:::runs/mine/*"]},)"
      R"({"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws-cn:s3:::data",)"
      R"("Condition":{"StringLike":{"s3:prefix":["mnist/*"]}}},)"
      R"({"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws-cn:s3:::lists",)"
      R"("Condition":{"StringLike":{"s3:prefix":["images/*"]}}},)"
      R"({"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws-cn:s3:::runs",)"
      R"("Condition":{"StringLike":{"s3:prefix":["mine/*"]}}},)"
      R"({"Effect":"Allow","Action":["s3:AbortMultipartUpload","s3:DeleteObject",)"
      R"("s3:PutObject"],"Resource":["arn:aws-cn:s3:::runs/mine/*"]}]})");
}

TEST(SessionPolicy, OfAJobThatNamesNothingHasNothingInS3) {
  EXPECT_EQ(*policy_of(""), R"({"Version":"2012-10-17","Statement":[)"
                            R"({"Effect":"Allow","NotAction":"s3:*","Resource":"*"}]})");
}

std::string many(const std::string& key) {
  std::string list = "  " + key + ": [";
  for (int i = 0; i < 100; ++i)
    list += (i > 0 ? ", " : "") + std::string("s3://bucket/of-some-length/") + std::to_string(i);
  return list + "]\n";
}

TEST(SessionPolicy, TooManyPlacesToReadAreLeftToTheRoleAndTooManyToWriteRefused) {
  const auto read = policy_of(many("reads"));
  ASSERT_TRUE(read);
  EXPECT_NE(read->find(R"("Action":["s3:GetObject","s3:ListBucket"],"Resource":"*")"), read->npos);
  EXPECT_EQ(read->find("PutObject"), read->npos);
  const auto written = policy_of(many("writes"));
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("trainer.writes"), std::string::npos);
}

}  // namespace
}  // namespace spotter::config
