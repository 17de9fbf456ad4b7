#include <gtest/gtest.h>

#include <sstream>

#include "agent/commands/sweep.hpp"

namespace spotter::command {
namespace {

TEST(SweepImage, IsPutIntoItsRepositoryOfEcr) {
  const std::string registry = "123456789012.dkr.ecr.us-west-2.amazonaws.com";
  const std::string image = registry + "/team/trainer:v1.2";
  const auto text = image_commands(image);
  ASSERT_TRUE(text) << text.error().message;
  std::string commands;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("#")) commands += line + "\n";
  EXPECT_EQ(commands,
            "docker build -f scripts/Containerfile -t spotter .\n"
            "docker build -t " +
                image +
                " .\n"
                "aws ecr create-repository --repository-name team/trainer --region us-west-2\n"
                "aws ecr get-login-password --region us-west-2 | "
                "docker login --username AWS --password-stdin " +
                registry + "\ndocker push " + image + "\n");
}

TEST(SweepImage, MayHaveNoTagAndBeInChina) {
  const auto text = image_commands("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/trainer");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("--repository-name trainer --region cn-north-1\n"), text->npos);
  EXPECT_NE(text->find("--password-stdin 123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn\n"),
            text->npos);
}

TEST(SweepImage, OfAnotherRegistryOrByItsDigestIsRefused) {
  for (const char* image : {"trainer:1", "docker.io/me/trainer:1", "public.ecr.aws/me/trainer:1",
                            "", "12.dkr.ecr.us-west-2.amazonaws.com/trainer:1",
                            "12345678901x.dkr.ecr.us-west-2.amazonaws.com/trainer:1",
                            "123456789012.dkr.ecr.us-west-2.amazonaws.com",
                            "123456789012.dkr.ecr.us-west-2.amazonaws.com/",
                            "123456789012.dkr.ecr.amazonaws.com/trainer:1",
                            "123456789012.dkr.ecr..amazonaws.com/trainer",
                            "123456789012.dkr.ecr.us-west-2.amazonaws.com.example/trainer:1",
                            "123456789012.dkr.ecr.us-west-2.amazonaws.com/trainer:",
                            "123456789012.dkr.ecr.us-west-2.amazonaws.com/trainer:1;id",
                            "123456789012.dkr.ecr.us-west-2.amazonaws.com/trainer@sha256:0123"}) {
    const auto text = image_commands(image);
    ASSERT_FALSE(text) << image;
    EXPECT_NE(text.error().message.find("ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME:TAG"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace spotter::command
