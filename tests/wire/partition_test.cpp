#include "agent/aws/formats/partition.hpp"

#include <gtest/gtest.h>

#include "agent/aws/settings/settings.hpp"

namespace spotter::wire {
namespace {

TEST(Partition, IsThatOfTheRegion) {
  const auto name = [](std::string_view region) { return partition_of(region).name; };
  EXPECT_EQ(name("us-west-2"), "aws");
  EXPECT_EQ(name("eu-central-1"), "aws");
  EXPECT_EQ(name("cn-northwest-1"), "aws-cn");
  EXPECT_EQ(name("us-gov-east-1"), "aws-us-gov");
  EXPECT_EQ(name("eusc-de-east-1"), "aws-eusc");
  EXPECT_EQ(name("us-iso-west-1"), "aws-iso");
  EXPECT_EQ(name("us-isob-east-1"), "aws-iso-b");
  EXPECT_EQ(name("eu-isoe-west-1"), "aws-iso-e");
  EXPECT_EQ(name("us-isof-south-1"), "aws-iso-f");
}

TEST(Partition, GivesTheHostOfAService) {
  const act::Environment none;
  const auto host = [&](std::string_view service, std::string_view region) {
    return act::endpoint(none, service, Region(region));
  };
  EXPECT_EQ(host("sns", "eu-central-1"), "https://sns.eu-central-1.amazonaws.com");
  EXPECT_EQ(host("ec2", "cn-north-1"), "https://ec2.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(host("s3", "eusc-de-east-1"), "https://s3.eusc-de-east-1.amazonaws.eu");
  EXPECT_EQ(host("sts", "us-iso-east-1"), "https://sts.us-iso-east-1.c2s.ic.gov");
}

// The answers of botocore 1.43 for these.
TEST(Partition, HasOtherHostsForFipsAndForDualStack) {
  const auto host = [&](std::string_view service, std::string_view region, bool fips, bool dual) {
    const act::Environment environment({{"AWS_USE_FIPS_ENDPOINT", fips ? "true" : "false"},
                                        {"AWS_USE_DUALSTACK_ENDPOINT", dual ? "True" : ""}});
    return act::endpoint(environment, service, Region(region)).substr(8);
  };
  EXPECT_EQ(host("s3", "us-west-2", true, false), "s3-fips.us-west-2.amazonaws.com");
  EXPECT_EQ(host("s3", "us-west-2", false, true), "s3.dualstack.us-west-2.amazonaws.com");
  EXPECT_EQ(host("s3", "us-west-2", true, true), "s3-fips.dualstack.us-west-2.amazonaws.com");
  EXPECT_EQ(host("s3", "cn-north-1", false, true), "s3.dualstack.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(host("ec2", "us-west-2", true, false), "ec2-fips.us-west-2.amazonaws.com");
  EXPECT_EQ(host("ec2", "us-west-2", true, true), "ec2-fips.us-west-2.api.aws");
  EXPECT_EQ(host("ec2", "us-gov-west-1", true, false), "ec2.us-gov-west-1.amazonaws.com");
  EXPECT_EQ(host("ec2", "us-gov-west-1", true, true), "ec2-fips.us-gov-west-1.api.aws");
  EXPECT_EQ(host("ssm", "us-gov-west-1", true, false), "ssm-fips.us-gov-west-1.amazonaws.com");
  EXPECT_EQ(host("ec2", "cn-north-1", false, true), "ec2.cn-north-1.api.amazonwebservices.com.cn");
  EXPECT_EQ(host("batch", "us-west-2", true, false), "fips.batch.us-west-2.amazonaws.com");
  EXPECT_EQ(host("batch", "us-west-2", true, true), "batch-fips.us-west-2.api.aws");
  EXPECT_EQ(host("elasticfilesystem", "us-west-2", true, false),
            "elasticfilesystem-fips.us-west-2.amazonaws.com");
  EXPECT_EQ(host("elasticfilesystem", "us-west-2", false, true), "efs.us-west-2.api.aws");
  EXPECT_EQ(host("iam", "us-west-2", true, false), "iam-fips.amazonaws.com");
  EXPECT_EQ(host("iam", "us-west-2", false, true), "iam.global.api.aws");
  EXPECT_EQ(host("iam", "us-west-2", true, true), "iam-fips.global.api.aws");
  EXPECT_EQ(host("iam", "us-gov-west-1", true, false), "iam.us-gov.amazonaws.com");
  EXPECT_EQ(host("iam", "us-gov-west-1", true, true), "iam.us-gov.api.aws");
  EXPECT_EQ(host("iam", "cn-north-1", false, true), "iam.global.api.amazonwebservices.com.cn");
  EXPECT_EQ(host("iam", "us-iso-east-1", true, false), "iam-fips.us-iso-east-1.c2s.ic.gov");
  EXPECT_EQ(host("iam", "eusc-de-east-1", false, true), "iam.api.amazonwebservices.eu");
}

TEST(Partition, OnlyItsHostsAreOfAws) {
  EXPECT_TRUE(is_of_aws("bucket.s3.eusc-de-east-1.amazonaws.eu"));
  EXPECT_TRUE(is_of_aws("s3.us-west-2.amazonaws.com"));
  for (const char* other : {"amazonaws.com", "s3.evilamazonaws.com", "s3.amazonaws.com.example",
                            "example/.amazonaws.com", "me@s3.amazonaws.com", ""})
    EXPECT_FALSE(is_of_aws(other)) << other;
}

}  // namespace
}  // namespace spotter::wire
