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

std::string many(const std::string& key, const std::string& folder) {
  std::string list = "  " + key + ": [";
  for (int i = 0; i < 100; ++i)
    list += (i > 0 ? ", " : "") + ("s3://bucket/" + folder) + std::to_string(i) + "/images";
  return list + "]\n";
}

TEST(SessionPolicy, ForTooManyPlacesToReadHasTheFoldersAboveThem) {
  const auto read = policy_of(many("reads", "of-some-length/"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_NE(read->find(R"("Resource":["arn:aws-cn:s3:::bucket/of-some-length/*"])"), read->npos);
  EXPECT_NE(read->find(R"({"s3:prefix":["of-some-length/*"]})"), read->npos);
  EXPECT_EQ(read->find("PutObject"), read->npos);
}

TEST(SessionPolicy, NeverReachesWhatLiesBesideTheJobsOwnPlaces) {
  const std::string mine = "  writes: s3://bucket/of-some-length/homes/mine/\n";
  for (const auto& read : {many("reads", "of-some-length/") + mine, many("reads", "")}) {
    const auto policy = policy_of(read);
    ASSERT_FALSE(policy) << *policy;
    EXPECT_NE(policy.error().message.find("trainer.reads"), std::string::npos);
  }
  const auto deep = policy_of(many("reads", "of-some-length/data/") + mine);
  ASSERT_TRUE(deep) << deep.error().message;
  EXPECT_NE(deep->find("of-some-length/data/*"), deep->npos);
  EXPECT_FALSE(policy_of(many("writes", "of-some-length/")));
}

}  // namespace
}  // namespace spotter::config
