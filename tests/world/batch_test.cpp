// Stories of AWS Batch, on virtual time.
#include "tests/world/batch/retry.hpp"
#include "tests/world/batch_farm.hpp"

namespace spotter::world::batch {
namespace {

std::string variable(const RunJob& run, const std::string& name) {
  for (const auto& [key, value] : run.environment) {
    if (key == name) return value;
  }
  return "";
}

TEST(Batch, RunsAJobOnASpotHostWithItsEnvironmentAndParameters) {
  Farm farm;
  farm.furnish(8);
  const std::string id = farm.submit({{"parameters", {{"epochs", "5"}}}});
  EXPECT_EQ(farm.status(id), "SUBMITTED");
  farm.wait(1_s);
  EXPECT_EQ(farm.status(id), "RUNNABLE");
  farm.wait(30_s);
  EXPECT_EQ(farm.status(id), "RUNNING");
  ASSERT_EQ(farm.runs().size(), 1u);
  const RunJob run = farm.runs()[0];
  EXPECT_EQ(run.command, (std::vector<std::string>{"train", "5"}));
  EXPECT_EQ(variable(run, "AWS_BATCH_JOB_ID"), id);
  EXPECT_EQ(variable(run, "AWS_BATCH_JOB_ATTEMPT"), "1");
  EXPECT_EQ(variable(run, "AWS_BATCH_JQ_NAME"), "queue");
  EXPECT_EQ(variable(run, "AWS_BATCH_CE_NAME"), "spot");
  EXPECT_EQ(variable(run, "AWS_BATCH_JOB_ARRAY_INDEX"), "");
  farm.end(id, 0);
  const Json done = farm.job(id);
  EXPECT_EQ(done["status"], "SUCCEEDED");
  EXPECT_EQ(done["container"]["exitCode"], 0);
  EXPECT_EQ(done["container"]["logStreamName"], "train/default/" + run.task);
  farm.wait(120_s);
  EXPECT_EQ(farm.world.cloud().instances.find(run.host)->state, InstanceState::Terminated)
      << "an idle host costs money";
}

// p3.2xlarge has 62464 MiB, of which its system keeps some.
TEST(Batch, LeavesRunnableForEverWhatNoHostCanHoldAndSaysWhy) {
  Farm farm;
  farm.furnish(8);
  const auto needs = [](const char* vcpus, const char* memory) -> Json {
    return {{"containerOverrides",
             {{"resourceRequirements",
               {{{"type", "VCPU"}, {"value", vcpus}}, {{"type", "MEMORY"}, {"value", memory}}}}}}};
  };
  const std::string large = farm.submit(needs("8", "62000"));
  const std::string behind = farm.submit();
  farm.wait(100'000_s);
  EXPECT_EQ(farm.status(large), "RUNNABLE");
  const std::string why = farm.job(large)["statusReason"];
  EXPECT_TRUE(why.starts_with("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - ")) << why;
  EXPECT_EQ(farm.status(behind), "RUNNABLE") << "it holds up its queue";
  EXPECT_TRUE(farm.runs().empty());
  farm.ask("TerminateJob", {{"jobId", large}, {"reason", "too large"}});
  farm.wait(60_s);
  EXPECT_EQ(farm.status(behind), "RUNNING");
}

TEST(Batch, SaysThatTheEnvironmentIsTooSmall) {
  Farm farm;
  farm.furnish(4);
  const std::string id = farm.submit();
  farm.wait(1'000_s);
  EXPECT_EQ(farm.status(id), "RUNNABLE");
  const std::string why = farm.job(id)["statusReason"];
  EXPECT_TRUE(why.starts_with("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - ")) << why;
}

TEST(Batch, ServesTheMoreImportantQueueFirstAndEachInItsOrder) {
  Farm farm;
  farm.furnish(8);
  farm.add_queue("urgent", 10);
  farm.wait(10_s);
  const std::string first = farm.submit();
  farm.wait(60_s);
  const std::string second = farm.submit();
  farm.wait(1_s);
  const std::string urgent = farm.submit({{"jobQueue", "urgent"}});
  farm.wait(60_s);
  EXPECT_EQ(farm.status(second), "RUNNABLE");
  farm.end(first, 0);
  farm.wait(10_s);
  EXPECT_EQ(farm.status(urgent), "RUNNING");
  EXPECT_EQ(farm.status(second), "RUNNABLE");
  farm.end(urgent, 0);
  farm.wait(10_s);
  EXPECT_EQ(farm.status(second), "RUNNING");
}

TEST(Batch, ADependentJobWaitsAndFailsWithTheOneItWaitsFor) {
  Farm farm;
  farm.furnish(16);
  const std::string one = farm.submit();
  const std::string two = farm.submit({{"dependsOn", {{{"jobId", one}}}}});
  const std::string three = farm.submit({{"dependsOn", {{{"jobId", two}}}}});
  farm.wait(60_s);
  EXPECT_EQ(farm.status(two), "PENDING");
  farm.end(one, 0);
  farm.wait(10_s);
  EXPECT_EQ(farm.status(two), "RUNNING");
  farm.end(two, 1);
  farm.wait(1_s);
  EXPECT_EQ(farm.status(two), "FAILED");
  EXPECT_EQ(farm.status(three), "FAILED");
  EXPECT_EQ(farm.job(three)["statusReason"], "Dependent Job failed");
  const std::string late = farm.submit({{"dependsOn", {{{"jobId", two}}}}});
  farm.wait(1_s);
  EXPECT_EQ(farm.status(late), "FAILED");
}

TEST(Batch, AnArrayRollsItsChildrenUp) {
  Farm farm;
  farm.furnish(64);
  const std::string id = farm.submit({{"arrayProperties", {{"size", 3}}}});
  farm.wait(60_s);
  EXPECT_EQ(farm.status(id), "PENDING");
  Json array = farm.job(id)["arrayProperties"];
  EXPECT_EQ(array["size"], 3);
  EXPECT_EQ(array["statusSummary"]["RUNNING"], 3);
  const auto runs = farm.runs();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(variable(runs[2], "AWS_BATCH_JOB_ARRAY_INDEX"), "2");
  EXPECT_EQ(variable(runs[2], "AWS_BATCH_JOB_ARRAY_SIZE"), "3");
  EXPECT_EQ(variable(runs[2], "AWS_BATCH_JOB_ID"), id + ":2");
  farm.end(id + ":0", 0);
  farm.end(id + ":1", 1);
  EXPECT_EQ(farm.status(id), "PENDING");
  const Json failed = farm.ask("ListJobs", {{"arrayJobId", id}, {"jobStatus", "FAILED"}});
  ASSERT_EQ(failed["jobSummaryList"].size(), 1u);
  EXPECT_EQ(failed["jobSummaryList"][0]["arrayProperties"]["index"], 1);
  farm.end(id + ":2", 0);
  EXPECT_EQ(farm.status(id), "FAILED");
  array = farm.job(id)["arrayProperties"];
  EXPECT_EQ(array["statusSummary"]["SUCCEEDED"], 2);
  EXPECT_EQ(array["statusSummary"]["FAILED"], 1);
}

TEST(Batch, SequentialChildrenRunOneAfterTheOther) {
  Farm farm;
  farm.furnish(64);
  const std::string id =
      farm.submit({{"arrayProperties", {{"size", 3}}}, {"dependsOn", {{{"type", "SEQUENTIAL"}}}}});
  farm.wait(60_s);
  EXPECT_EQ(farm.runs().size(), 1u);
  farm.end(id + ":0", 0);
  farm.wait(60_s);
  ASSERT_EQ(farm.runs().size(), 2u);
  EXPECT_EQ(farm.runs()[1].run.job, id + ":1");
  farm.end(id + ":1", 3);
  farm.wait(1_s);
  EXPECT_EQ(farm.status(id + ":2"), "FAILED") << "no link of the chain after a broken one";
  EXPECT_EQ(farm.status(id), "FAILED");
}

TEST(Batch, NToNPairsTheChildrenOfTwoArrays) {
  Farm farm;
  farm.furnish(64);
  const std::string one = farm.submit({{"arrayProperties", {{"size", 2}}}});
  const Json pairs = {{{"jobId", one}, {"type", "N_TO_N"}}};
  const std::string two = farm.submit({{"arrayProperties", {{"size", 2}}}, {"dependsOn", pairs}});
  farm.wait(60_s);
  farm.end(one + ":1", 0);
  farm.wait(60_s);
  EXPECT_EQ(farm.status(two + ":1"), "RUNNING");
  EXPECT_EQ(farm.status(two + ":0"), "PENDING");
  EXPECT_NE(farm.refused("SubmitJob", {{"jobName", "a"},
                                       {"jobQueue", "queue"},
                                       {"jobDefinition", "train"},
                                       {"dependsOn", pairs},
                                       {"arrayProperties", {{"size", 3}}}})
                .find("another size"),
            std::string::npos);
}

TEST(Batch, TheRetryStrategyChoosesByTheFirstRuleThatHolds) {
  const auto rules = [](const Json& list, int attempts = 3) {
    return *parse_retry({{"attempts", attempts}, {"evaluateOnExit", list}});
  };
  const Json usual = {{{"onStatusReason", "Host EC2*"}, {"action", "retry"}},
                      {{"onExitCode", "75"}, {"action", "RETRY"}},
                      {{"onReason", "*"}, {"action", "EXIT"}}};
  const Ending reclaimed{std::nullopt, "", "Host EC2 (instance i-0) terminated."};
  const Ending failed{1, "", "Essential container in task exited"};
  const Ending asked{75, "", "Essential container in task exited"};
  EXPECT_TRUE(tries_again(rules(usual), 1, reclaimed));
  EXPECT_TRUE(tries_again(rules(usual), 2, asked));
  EXPECT_FALSE(tries_again(rules(usual), 3, asked)) << "attempts are a limit all the same";
  EXPECT_FALSE(tries_again(rules(usual), 1, failed));
  EXPECT_TRUE(tries_again({.attempts = 2}, 1, failed)) << "no rules: every failure";
  EXPECT_TRUE(tries_again(rules({{{"onExitCode", "2"}, {"action", "EXIT"}}}), 1, failed))
      << "no rule holds";
  EXPECT_FALSE(tries_again(rules({{{"onExitCode", "1*"}, {"action", "EXIT"}}}), 1, Ending{137}));
  const Json both = {{{"onExitCode", "1"}, {"onReason", "Cannot*"}, {"action", "EXIT"}}};
  EXPECT_TRUE(tries_again(rules(both), 1, failed)) << "every pattern of a rule has to hold";
  EXPECT_FALSE(parse_retry({{"attempts", 11}}));
  EXPECT_FALSE(parse_retry({{"attempts", 0}}));
  EXPECT_FALSE(parse_retry({{"evaluateOnExit", usual}})) << "attempts are missing";
  EXPECT_FALSE(parse_retry(
      {{"attempts", 2}, {"evaluateOnExit", {{{"onExitCode", "x"}, {"action", "EXIT"}}}}}));
}

TEST(Batch, AJobIsTriedAsOftenAsItsAttemptsSay) {
  for (int attempts = 1; attempts <= 10; ++attempts) {
    Farm farm;
    farm.furnish(8);
    const std::string id = farm.submit({{"retryStrategy", {{"attempts", attempts}}}});
    for (int i = 1; i <= attempts; ++i) {
      farm.wait(30_s);
      ASSERT_EQ(farm.status(id), "RUNNING") << i << " of " << attempts;
      EXPECT_EQ(variable(farm.runs().back(), "AWS_BATCH_JOB_ATTEMPT"), std::to_string(i));
      farm.end(id, 1);
    }
    EXPECT_EQ(farm.status(id), "FAILED");
    EXPECT_EQ(farm.job(id)["attempts"].size(), static_cast<std::size_t>(attempts));
  }
}

TEST(Batch, AReclaimedHostsJobsAreStoppedThenKilledAndTriedElsewhere) {
  Farm farm;
  farm.make_draining_template("drains");
  farm.furnish(8, {{"launchTemplate", {{"launchTemplateName", "drains"}}}});
  const std::string id = farm.submit({{"retryStrategy", {{"attempts", 2}}}});
  farm.wait(30_s);
  const InstanceId host = farm.runs().at(0).host;
  ASSERT_TRUE(farm.world.interrupt(host, InterruptionAction::Terminate, 120_s, farm.now));
  farm.wait(1_s);
  EXPECT_TRUE(farm.was_sent<StopJob>(id));
  EXPECT_FALSE(farm.was_sent<KillJob>(id));
  farm.wait(30_s);
  EXPECT_TRUE(farm.was_sent<KillJob>(id));
  farm.end(id, 137);
  const Json attempt = farm.job(id)["attempts"][0];
  EXPECT_EQ(attempt["statusReason"], "Host EC2 (instance " + host.str() + ") terminated.");
  EXPECT_EQ(attempt["container"]["exitCode"], 137);
  farm.wait(600_s);
  ASSERT_EQ(farm.status(id), "RUNNING");
  EXPECT_NE(farm.runs().back().host, host);
}

TEST(Batch, HowLongAStoppedJobMayTakeIsEcsAgentsSetting) {
  Farm farm;  // ECS_ENABLE_SPOT_INSTANCE_DRAINING=true, ECS_CONTAINER_STOP_TIMEOUT=100s
  farm.make_draining_template("slow",
                              "RUNTX0VOQUJMRV9TUE9UX0lOU1RBTkNFX0RSQUlOSU5HPXRydWUKRUNT"
                              "X0NPTlRBSU5FUl9TVE9QX1RJTUVPVVQ9MTAwcwo=");
  farm.furnish(8, {{"launchTemplate", {{"launchTemplateName", "slow"}}}});
  const std::string id = farm.submit();
  farm.wait(30_s);
  const InstanceId host = farm.runs().at(0).host;
  ASSERT_TRUE(farm.world.interrupt(host, InterruptionAction::Terminate, 120_s, farm.now));
  farm.wait(90_s);
  EXPECT_TRUE(farm.was_sent<StopJob>(id));
  EXPECT_FALSE(farm.was_sent<KillJob>(id));
  farm.wait(15_s);
  EXPECT_TRUE(farm.was_sent<KillJob>(id));
}

TEST(Batch, WhereEcsAgentDoesNotDrainANoticeIsNoSignal) {
  Farm farm;
  farm.furnish(8);
  const std::string id = farm.submit();
  farm.wait(30_s);
  const InstanceId host = farm.runs().at(0).host;
  ASSERT_TRUE(farm.world.interrupt(host, InterruptionAction::Terminate, 120_s, farm.now));
  farm.wait(110_s);
  EXPECT_FALSE(farm.was_sent<StopJob>(id));
  EXPECT_EQ(farm.status(id), "RUNNING");
}

TEST(Batch, AHostThatDiesWithoutANoticeTakesItsJobsAlong) {
  Farm farm;
  farm.furnish(8);
  const std::string id = farm.submit();
  farm.wait(30_s);
  const InstanceId host = farm.runs().at(0).host;
  ASSERT_TRUE(farm.world.kill(host, farm.now));
  farm.wait(1_s);
  const Json job = farm.job(id);
  EXPECT_EQ(job["status"], "FAILED");
  EXPECT_EQ(job["statusReason"], "Host EC2 (instance " + host.str() + ") terminated.");
  EXPECT_FALSE(job["container"].contains("exitCode"));
}

TEST(Batch, ATimeoutEndsAJobForGood) {
  Farm farm;
  farm.furnish(8);
  const std::string id = farm.submit(
      {{"timeout", {{"attemptDurationSeconds", 60}}}, {"retryStrategy", {{"attempts", 3}}}});
  farm.wait(30_s);
  ASSERT_EQ(farm.status(id), "RUNNING");
  farm.wait(60_s);
  EXPECT_TRUE(farm.was_sent<StopJob>(id));
  farm.end(id, 143);
  EXPECT_EQ(farm.status(id), "FAILED");
  EXPECT_EQ(farm.job(id)["statusReason"], "Job attempt duration exceeded timeout");
}

TEST(Batch, CancelSparesWhatRunsAndTerminateDoesNot) {
  Farm farm;
  farm.furnish(8);
  const std::string id =
      farm.submit({{"arrayProperties", {{"size", 2}}}, {"retryStrategy", {{"attempts", 3}}}});
  farm.wait(30_s);
  farm.ask("CancelJob", {{"jobId", id}, {"reason", "enough"}});
  EXPECT_EQ(farm.status(id + ":0"), "RUNNING");
  EXPECT_EQ(farm.status(id + ":1"), "FAILED");
  EXPECT_EQ(farm.job(id + ":1")["statusReason"], "enough");
  EXPECT_FALSE(farm.was_sent<StopJob>(id + ":0"));
  farm.ask("TerminateJob", {{"jobId", id}, {"reason", "really"}});
  EXPECT_TRUE(farm.was_sent<StopJob>(id + ":0"));
  farm.end(id + ":0", 143);
  EXPECT_EQ(farm.status(id + ":0"), "FAILED") << "and is not tried again";
  EXPECT_EQ(farm.job(id + ":0")["statusReason"], "really");
  EXPECT_EQ(farm.status(id), "FAILED");
}

TEST(Batch, TenThousandChildrenAreOneArrayAndOneMoreIsRefused) {
  Farm farm;
  farm.furnish(16);
  const std::string id = farm.submit({{"arrayProperties", {{"size", 10'000}}}});
  farm.wait(30_s);
  EXPECT_EQ(farm.job(id)["arrayProperties"]["statusSummary"]["RUNNABLE"], 9'998);
  std::size_t seen = 0;
  Json question = {{"arrayJobId", id}, {"jobStatus", "RUNNABLE"}};
  for (Json page = farm.ask("ListJobs", question);; page = farm.ask("ListJobs", question)) {
    seen += page["jobSummaryList"].size();
    if (!page.contains("nextToken")) break;
    question["nextToken"] = page["nextToken"];
  }
  EXPECT_EQ(seen, 9'998u);
  farm.ask("TerminateJob", {{"jobId", id}, {"reason", "enough"}});
  EXPECT_EQ(farm.job(id)["arrayProperties"]["statusSummary"]["FAILED"], 9'998);
  for (const int size : {1, 10'001}) {
    EXPECT_TRUE(farm.refused("SubmitJob", {{"jobName", "a"},
                                           {"jobQueue", "queue"},
                                           {"jobDefinition", "train"},
                                           {"arrayProperties", {{"size", size}}}})
                    .starts_with("ClientException: "));
  }
}

TEST(Batch, TagsOfAJobHaveTheirBoundsAndItsEndSaysWhoEndedIt) {
  Farm farm;
  farm.furnish(8);
  const std::string id = farm.submit({{"tags", {{"a", "b"}}}});
  Json many;
  for (int i = 0; i < 51; ++i) many[std::to_string(i)] = "";
  for (const Json& tags : {Json{{"aws:a", ""}}, Json{{std::string(129, 'k'), ""}},
                           Json{{"k", std::string(257, 'v')}}, many})
    EXPECT_TRUE(farm.refused("SubmitJob", {{"jobName", "a"},
                                           {"jobQueue", "queue"},
                                           {"jobDefinition", "train"},
                                           {"tags", tags}})
                    .starts_with("ClientException"));
  const std::string arn = farm.job(id)["jobArn"];
  const Json more = {{"tags", {{"c", "d"}}}};
  EXPECT_EQ(
      farm.batch
          .answer({.method = "POST", .path = "/v1/tags/" + arn, .body = more.dump()}, farm.now)
          .status,
      200);
  EXPECT_EQ(farm.job(id)["tags"], (Json{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(farm.job(id)["isCancelled"], false);
  farm.ask("CancelJob", {{"jobId", id}, {"reason", "why not"}});
  EXPECT_EQ(farm.job(id)["isCancelled"], true);
  EXPECT_EQ(farm.job(id)["isTerminated"], false);
}

TEST(Batch, WhatContradictsItselfIsRefused) {
  Farm farm;
  farm.furnish(8);
  const Json spot = {{"order", 1}, {"computeEnvironment", "spot"}};
  const Json again = {{"order", 2}, {"computeEnvironment", "spot"}};
  const auto code = [&](const char* action, const Json& body) {
    return farm.refused(action, body).substr(0, 15);
  };
  EXPECT_EQ(code("CreateJobQueue", {{"jobQueueName", "twice"},
                                    {"priority", 1},
                                    {"computeEnvironmentOrder", {spot, again}}}),
            "ClientException");
  for (const Json& more :
       {Json{{"type", "EC2"}},
        Json{{"launchTemplate", {{"launchTemplateId", "lt-1"}, {"launchTemplateName", "n"}}}}})
    EXPECT_EQ(code("CreateComputeEnvironment", Farm::environment(8, more)), "ClientException");
  EXPECT_FALSE(parse_retry({{"attempts", 2}, {"evaluateOnExit", {{{"action", "RETRY"}}}}}));
}

TEST(Batch, WhatHasTheWrongTypeIsRefused) {
  Farm farm;
  farm.furnish(8);
  for (const Json& wrong :
       {Json{{"imageId", 1}}, Json{{"tags", {{"a", 1}}}}, Json{{"subnets", "s"}},
        Json{{"instanceTypes", {1}}}, Json{{"maxvCpus", "8"}}, Json{{"minvCpus", 9}}}) {
    EXPECT_TRUE(farm.refused("UpdateComputeEnvironment",
                             {{"computeEnvironment", "spot"}, {"computeResources", wrong}})
                    .starts_with("ClientException: "))
        << wrong.dump();
  }
}

TEST(Batch, ARegularRoleChangesOnlyHowManyHostsThereAre) {
  Farm farm;
  const std::string role = "arn:aws:iam::123456789012:role/batch";
  Json asked = Farm::environment(8);
  asked["serviceRole"] = role;
  farm.ask("CreateComputeEnvironment", asked);
  farm.wait(5_s);
  const auto update = [](const Json& resources) {
    return Json{{"computeEnvironment", "spot"}, {"computeResources", resources}};
  };
  EXPECT_NE(farm.refused("UpdateComputeEnvironment", update({{"maxvCpus", 9}, {"type", "SPOT"}}))
                .find("AWSServiceRoleForBatch"),
            std::string::npos);
  EXPECT_NE(farm.refused("UpdateComputeEnvironment",
                         {{"computeEnvironment", "spot"}, {"serviceRole", ""}})
                .find("each other's place"),
            std::string::npos);
  farm.ask("UpdateComputeEnvironment", update({{"maxvCpus", 9}}));
}

TEST(Batch, ThingsAreDeletedInTheirOrder) {
  Farm farm;
  farm.furnish(8);
  const std::string id = farm.submit();
  const Json environment = {{"computeEnvironment", "spot"}};
  const Json queue = {{"jobQueue", "queue"}};
  EXPECT_EQ(farm.refused("CreateJobQueue", {{"jobQueueName", "queue"},
                                            {"priority", 1},
                                            {"computeEnvironmentOrder",
                                             {{{"order", 1}, {"computeEnvironment", "spot"}}}}}),
            "ClientException: Object already exists");
  EXPECT_NE(farm.refused("DeleteJobQueue", queue).find("DISABLED"), std::string::npos);
  farm.ask("UpdateComputeEnvironment", {{"computeEnvironment", "spot"}, {"state", "DISABLED"}});
  farm.wait(5_s);
  EXPECT_NE(farm.refused("DeleteComputeEnvironment", environment).find("JobQueue relationship"),
            std::string::npos);
  farm.ask("UpdateJobQueue", {{"jobQueue", "queue"}, {"state", "DISABLED"}});
  EXPECT_NE(farm.refused("SubmitJob",
                         {{"jobName", "a"}, {"jobQueue", "queue"}, {"jobDefinition", "train"}})
                .find("not ENABLED"),
            std::string::npos);
  farm.wait(5_s);
  farm.ask("DeleteJobQueue", queue);
  EXPECT_EQ(farm.status(id), "FAILED");
  farm.wait(5_s);
  farm.ask("DeleteComputeEnvironment", environment);
  farm.wait(5_s);
  EXPECT_TRUE(
      farm.ask("DescribeComputeEnvironments", Json::object())["computeEnvironments"].empty());
  EXPECT_TRUE(farm.ask("DescribeJobQueues", Json::object())["jobQueues"].empty());
}

}  // namespace
}  // namespace spotter::world::batch
