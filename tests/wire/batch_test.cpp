#include "agent/aws/formats/batch.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace spotter::wire {
namespace {

using Json = nlohmann::json;

const BatchEnvironment environment{.name = "spot",
                                   .max_vcpus = 16,
                                   .instance_types = {"g5"},
                                   .subnets = {"subnet-1"},
                                   .security_groups = {"sg-1"},
                                   .instance_role = "role",
                                   .launch_template = "lt-1:2"};
const BatchDefinition definition{.name = "train",
                                 .image = "trainer",
                                 .command = {"spotter", "run"},
                                 .vcpus = 4,
                                 .memory = 1000,
                                 .attempts = 3,
                                 .environment = {{"A", "1"}},
                                 .volumes = {{.mount = "/efs", .file_system = "fs-1"}}};

TEST(BatchRequests, AreWhatTheCommandTakes) {
  EXPECT_EQ(as_http(create(environment)).target, "/v1/createcomputeenvironment");
  const auto text = command_of({"batch", "SubmitJob", R"({"jobName":"it's"})"});
  EXPECT_EQ(text, "aws batch submit-job --cli-input-json '{\n  \"jobName\": \"it'\\''s\"\n}'");
}

TEST(BatchRequests, SubmitAnArrayOnlyFromTwoOn) {
  EXPECT_FALSE(Json::parse(submit({.name = "a", .size = 1}).input).contains("arrayProperties"));
  EXPECT_EQ(Json::parse(submit({.name = "a", .size = 2}).input)["arrayProperties"]["size"], 2);
  EXPECT_EQ(submit({}).repeatable, Repeatable::No);
}

TEST(BatchRequests, TryAReclaimedHostAgainAndAFailedScriptNot) {
  const auto retry = Json::parse(register_definition(definition).input)["retryStrategy"];
  EXPECT_EQ(retry, Json::parse(R"({"attempts": 3, "evaluateOnExit": [
      {"onStatusReason": "Host EC2*", "action": "RETRY"},
      {"onExitCode": "75", "action": "RETRY"}, {"onReason": "*", "action": "EXIT"}]})"));
}

// AWS's answer has more in it, and actions in lower case.
Json as_described(const AwsCommand& call, const char* list, Json more) {
  Json row = Json::parse(call.input);
  row.update(more);
  return {{list, Json::array({row})}};
}

TEST(BatchAnswers, TellWhetherAnythingHasToChange) {
  Json answer = as_described(create(environment), "computeEnvironments",
                             {{"status", "VALID"}, {"uuid", "1"}});
  answer["computeEnvironments"][0]["computeResources"]["desiredvCpus"] = 4;
  auto found = decode_environment(answer.dump(), environment);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->differs, std::set<std::string>());
  EXPECT_EQ((*found)->status, "VALID");
  answer["computeEnvironments"][0]["computeResources"]["maxvCpus"] = 8;
  answer["computeEnvironments"][0]["state"] = "DISABLED";
  found = decode_environment(answer.dump(), environment);
  EXPECT_EQ(Json::parse(update(environment, **found).input),
            Json::parse(R"({"computeEnvironment": "spot", "state": "ENABLED",
                            "computeResources": {"maxvCpus": 16}})"));

  answer = as_described(register_definition(definition), "jobDefinitions",
                        {{"revision", 7}, {"jobDefinitionArn", "arn:7"}});
  auto& rules = answer["jobDefinitions"][0]["retryStrategy"]["evaluateOnExit"];
  for (auto& rule : rules) rule["action"] = rule["action"] == "EXIT" ? "exit" : "retry";
  EXPECT_EQ(*decode_definition(answer.dump(), definition), "arn:7");
  auto other = definition;
  other.command = {"spotter", "RUN"};
  EXPECT_EQ(*decode_definition(answer.dump(), other), "");
  EXPECT_EQ(*decode_definition(R"({"jobDefinitions": []})", definition), "");
}

TEST(BatchAnswers, ListsOfAnEnvironmentAreSets) {
  auto wanted = environment;
  wanted.subnets = {"subnet-2", "subnet-1"};
  wanted.instance_types = {"g5", "g4dn"};
  Json answer = as_described(create(wanted), "computeEnvironments", {{"status", "VALID"}});
  Json& there = answer["computeEnvironments"][0]["computeResources"];
  there["subnets"] = {"subnet-1", "subnet-2"};
  there["instanceTypes"] = {"g4dn", "g5"};
  EXPECT_TRUE((*decode_environment(answer.dump(), wanted))->differs.empty());
  there["subnets"] = {"subnet-1", "subnet-2", "subnet-3"};
  const auto found = *decode_environment(answer.dump(), wanted);
  EXPECT_EQ(found->differs, std::set<std::string>{"subnets"});
  const Json sent = Json::parse(update(wanted, *found).input);
  EXPECT_FALSE(sent.contains("state"));
  EXPECT_EQ(sent["computeResources"], Json({{"subnets", {"subnet-2", "subnet-1"}}}));
}

TEST(BatchAnswers, AQueueIsAsWantedWithItsOneEnvironment) {
  const BatchQueue queue{.name = "q", .priority = 2, .environment = "spot"};
  Json row = {{"jobQueueName", "q"}, {"state", "ENABLED"}, {"status", "VALID"}, {"priority", 2}};
  Json order = {{"order", 1}, {"computeEnvironment", "arn:aws:batch:r:1:compute-environment/spot"}};
  row["computeEnvironmentOrder"] = Json::array({order});
  Json answer = {{"jobQueues", Json::array({row})}};
  EXPECT_TRUE((*decode_queue(answer.dump(), queue))->differs.empty());
  answer["jobQueues"][0]["computeEnvironmentOrder"].push_back(order);
  const auto found = *decode_queue(answer.dump(), queue);
  EXPECT_EQ(found->differs, std::set<std::string>{"computeEnvironmentOrder"});
  EXPECT_FALSE(Json::parse(update(queue, *found).input).contains("priority"));
  EXPECT_FALSE(*decode_queue(R"({"jobQueues": []})", queue));
}

TEST(BatchAnswers, AJobIsReadAsFarAsItIsKnown) {
  const auto jobs = decode_jobs(R"({"jobs": [
      {"jobId": "a", "jobName": "n", "status": "PENDING", "createdAt": 5, "new": {},
       "arrayProperties": {"size": 3, "statusSummary": {"FAILED": 1, "RUNNING": 2}},
       "container": {"environment": [{"name": "A", "value": "1"}]}},
      {"jobId": "a:2", "jobName": "n", "status": "FAILED", "statusReason": "why",
       "arrayProperties": {"size": 3, "index": 2}, "container": {"exitCode": 137}}]})");
  ASSERT_TRUE(jobs);
  EXPECT_EQ((*jobs)[0].size, 3u);
  EXPECT_EQ((*jobs)[0].children.at("RUNNING"), 2u);
  EXPECT_EQ((*jobs)[0].environment.at("A"), "1");
  EXPECT_EQ((*jobs)[1].index, 2u);
  EXPECT_EQ((*jobs)[1].exit_code, 137);
  EXPECT_EQ((*jobs)[1].reason, "why");
}

TEST(BatchAnswers, GarbageIsAnErrorAndNoCrash) {
  for (const char* text : {"", "[]", "{", "{}", R"({"jobs": 1})", R"({"jobs": [1]})",
                           R"({"jobs": [{}]})", R"({"jobs": [{"jobId": 1, "status": 2}]})"}) {
    EXPECT_FALSE(decode_jobs(text)) << text;
    EXPECT_FALSE(decode_submitted(text)) << text;
    EXPECT_FALSE(decode_environment(text, environment)) << text;
  }
  EXPECT_TRUE(decode_jobs(R"({"jobs": [{"jobId": "a", "status": "RUNNING", "createdAt": -1,
      "arrayProperties": [], "container": {"exitCode": "1", "environment": {}}}]})"));
}

}  // namespace
}  // namespace spotter::wire
