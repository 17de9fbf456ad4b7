// AWS Batch's questions to IAM: each grant that a sweep takes is left out in its turn.
#include "tests/world/batch_farm.hpp"

namespace spotter::world::batch {
namespace {

TEST(Batch, JudgesEveryResourceOfACall) {
  struct Grant {
    std::string action, resource;
  };
  const std::string arn = "arn:aws:batch:us-west-2:123456789012:";
  const std::string roles = "arn:aws:iam::123456789012:role/";
  const std::vector<Grant> needed = {
      {"batch:CreateComputeEnvironment", arn + "compute-environment/spot"},
      {"batch:TagResource", arn + "compute-environment/spot"},
      {"iam:PassRole", roles + "ecsInstanceRole"},
      {"iam:CreateServiceLinkedRole",
       roles + "aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"},
      {"batch:CreateJobQueue", arn + "job-queue/queue"},
      {"batch:CreateJobQueue", arn + "compute-environment/spot"},
      {"batch:RegisterJobDefinition", arn + "job-definition/train"},
      {"iam:PassRole", roles + "job"},
      {"batch:SubmitJob", arn + "job-queue/queue"},
      {"batch:SubmitJob", arn + "job-definition/train"},
      {"batch:SubmitJob", arn + "job/*"},
      {"batch:TagResource", arn + "job/*"},
      {"batch:TerminateJob", arn + "job/*"}};
  const std::vector<std::pair<std::string, Json>> calls = {
      {"CreateComputeEnvironment", Farm::environment(8)},
      {"CreateJobQueue",
       {{"jobQueueName", "queue"},
        {"priority", 1},
        {"computeEnvironmentOrder", {{{"order", 1}, {"computeEnvironment", "spot"}}}}}},
      {"RegisterJobDefinition",
       {{"jobDefinitionName", "train"},
        {"type", "container"},
        {"containerProperties",
         {{"image", "trainer"},
          {"jobRoleArn", roles + "job"},
          {"resourceRequirements",
           {{{"type", "VCPU"}, {"value", "8"}}, {{"type", "MEMORY"}, {"value", "1024"}}}}}}}},
      {"SubmitJob",
       {{"jobName", "job"},
        {"jobQueue", "queue"},
        {"jobDefinition", "train"},
        {"tags", {{"spotter:job", "mine"}}}}},
      {"TerminateJob", {{"jobId", "no-such-job"}, {"reason", "over"}}}};
  for (std::size_t lacking = 0; lacking <= needed.size(); ++lacking) {
    Farm farm;
    Json statements = Json::array();
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (i != lacking)
        statements.push_back(
            {{"Effect", "Allow"}, {"Action", needed[i].action}, {"Resource", needed[i].resource}});
    const Json document = {{"Version", "2012-10-17"}, {"Statement", statements}};
    ASSERT_TRUE(farm.world.set_policies("me", {document.dump()}));
    std::string denied;
    for (const auto& [action, body] : calls) {
      const Json answer = farm.raw(action, body, "me");
      if (answer.value("code", "") == "AccessDeniedException")
        denied = answer.value("message", "");
      else
        ASSERT_FALSE(answer.contains("code") && action != "TerminateJob") << answer;
      if (!denied.empty()) break;
      farm.wait(10_s);
    }
    if (lacking == needed.size())
      EXPECT_EQ(denied, "");
    else
      EXPECT_NE(denied.find("not authorized to perform: " + needed[lacking].action), denied.npos)
          << needed[lacking].action << " on " << needed[lacking].resource << ": " << denied;
  }
}

}  // namespace
}  // namespace spotter::world::batch
