// `sweep.batch:` of job.yaml.
#include "agent/config/batch.hpp"

#include <gtest/gtest.h>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

std::string with_batch(const std::string& more) {
  return smallest_and("sweep:\n  grid: {lr: [0.1, 0.2]}\n  batch:\n    image: trainer:1\n" + more);
}
constexpr const char* needs =
    "    vcpus: 4\n    memory: 16000\n    max_vcpus: 32\n    subnets: subnet-1a\n"
    "    security_groups: [sg-1, sg-2]\n";

Batch batch_of(const std::string& more) {
  const auto job = parse_job(with_batch(needs + more), as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  return job ? *job->sweep->batch : Batch{};
}

TEST(Batch, HasDefaultsForAllThatAwsDoesNotRequire) {
  const auto [environment, queue, definition] = batch_of("");
  EXPECT_EQ(environment.name, "spotter-small");
  EXPECT_EQ(queue.name, "spotter-small");
  EXPECT_EQ(queue.environment, "spotter-small");
  EXPECT_EQ(definition.name, "spotter-small");
  EXPECT_EQ(environment.instance_types, std::vector<std::string>{"optimal"});
  EXPECT_EQ(environment.instance_role, "ecsInstanceRole");
  EXPECT_EQ(definition.command,
            (std::vector<std::string>{"spotter", "run", "--job", "/etc/spotter/job.yaml"}));
  EXPECT_EQ(definition.attempts, 10);
  EXPECT_FALSE(definition.timeout);
}

TEST(Batch, ReadsWhatIsGiven) {
  const auto [environment, queue, definition] = batch_of(
      "    gpus: 1\n    instance_types: [g5, p3.2xlarge]\n    command: ./go --fast\n"
      "    environment: {A: 1}\n    timeout: 2h\n    attempts: 3\n    priority: 7\n"
      "    queue: q\n    compute_environment: ce\n    launch_template: lt-0123:4\n"
      "    volumes: [{efs: fs-1, access_point: fsap-1, mount: /mnt/efs}, "
      "{host: /data, mount: /in, read_only: true}]\n");
  EXPECT_EQ(environment.name, "ce");
  EXPECT_EQ(queue.name, "q");
  EXPECT_EQ(queue.priority, 7);
  EXPECT_EQ(environment.launch_template, "lt-0123:4");
  EXPECT_EQ(definition.command, (std::vector<std::string>{"/bin/sh", "-c", "./go --fast"}));
  EXPECT_EQ(definition.environment.at("A"), "1");
  EXPECT_EQ(definition.timeout, std::chrono::hours{2});
  ASSERT_EQ(definition.volumes.size(), 2u);
  EXPECT_EQ(definition.volumes[0].access_point, "fsap-1");
  EXPECT_EQ(definition.volumes[1].folder, "/data");
  EXPECT_TRUE(definition.volumes[1].read_only);
}

TEST(Batch, SaysWhatIsWrong) {
  const auto problem = [](const std::string& more) {
    return problems_of(with_batch(needs + more));
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  has(problems_of(with_batch("")), "the key 'memory' is missing");
  has(problems_of(with_batch("    vcpus: 1\n    memory: 9\n    max_vcpus: 1\n    subnets: a\n")),
      "security_groups");
  has(problem("    attempts: 11\n"), "from 1 to 10");
  has(problem("    timeout: 59s\n"), "60s at least");
  has(problem("    gpus: 1\n"), "GPU");
  has(problem("    environment: {AWS_BATCH_JOB_ID: x}\n"), "AWS Batch's own");
  has(problem("    queue: 'a b'\n"), "expected a name for AWS Batch");
  has(problem("    volumes: [{mount: /a}]\n"), "one of efs and host");
  has(problem("    volumes: [{efs: a, host: /b, mount: /a}]\n"), "one of efs and host");
  has(problem("    instance_typs: [g5]\n"), "did you mean 'instance_types'?");
  has(problem("    subnets: [a\n"), "job.yaml:");
}

}  // namespace
}  // namespace spotter::config
