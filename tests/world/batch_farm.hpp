// A client of AWS Batch for the tests, on a clock that the test moves; a job on a host ends when
// the test says so.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/world/batch/batch.hpp"
#include "tests/world/test_api.hpp"

namespace spotter::world::batch {

struct Farm {
  World world{world::Settings{}, 1};
  Batch batch{world, Settings{}, 1};
  Time now{};
  std::vector<Order> orders;

  Json raw(const std::string& action, const Json& body, const std::string& caller = {}) {
    std::string path = "/v1/" + action;
    std::transform(path.begin(), path.end(), path.begin(), ::tolower);
    const Reply reply =
        batch.answer({.method = "POST", .path = path, .body = body.dump(), .caller = caller}, now);
    Json answer = Json::parse(reply.body);
    if (reply.status != 200) answer["code"] = reply.headers.at("x-amzn-ErrorType");
    return answer;
  }
  Json ask(const std::string& action, const Json& body) {
    Json answer = raw(action, body);
    EXPECT_FALSE(answer.contains("code")) << action << ": " << answer.dump();
    wait(Duration{0});
    return answer;
  }
  std::string refused(const std::string& action, const Json& body) {
    const Json answer = raw(action, body);
    return answer.value("code", "") + ": " + answer.value("message", "");
  }
  void wait(Duration duration) {
    const Time until = now + duration;
    for (;;) {
      take();
      std::optional<Time> next = world.next();
      if (const auto of_batch = batch.next(); of_batch && (!next || *of_batch < *next))
        next = of_batch;
      if (!next || *next > until) break;
      now = std::max(now, *next);
    }
    now = until;
    take();
  }
  void take() {
    world.advance(now);
    for (Order& it : batch.advance(now)) orders.push_back(std::move(it));
  }

  // One environment of `vcpus`, machines of 8 and one GPU, and a queue "queue" of priority 1.
  void furnish(int vcpus, const Json& more = Json::object()) {
    ask("CreateComputeEnvironment", environment(vcpus, more));
    wait(10_s);
    add_queue("queue", 1);
    wait(10_s);
    define("train");
  }
  static Json environment(int vcpus, const Json& more = Json::object()) {
    Json resources = {{"type", "SPOT"},
                      {"allocationStrategy", "SPOT_PRICE_CAPACITY_OPTIMIZED"},
                      {"maxvCpus", vcpus},
                      {"instanceTypes", {"p3.2xlarge"}},
                      {"subnets", {"subnet-1a"}},
                      {"securityGroupIds", {"sg-1"}},
                      {"instanceRole", "ecsInstanceRole"}};
    resources.update(more);
    return {{"computeEnvironmentName", "spot"},
            {"type", "MANAGED"},
            {"computeResources", resources},
            {"tags", {{"spotter:job", "mine"}}}};
  }
  // A launch template whose user data tells ECS's agent to drain at a notice; or other user data,
  // in base64.
  void make_draining_template(
      const std::string& name,
      const std::string& user_data = "RUNTX0VOQUJMRV9TUE9UX0lOU1RBTkNFX0RSQUlOSU5HPXRydWU=") {
    const Reply reply =
        world.ec2({"CreateLaunchTemplate",
                   {{"LaunchTemplateName", name}, {"LaunchTemplateData.UserData", user_data}},
                   ""},
                  now);
    EXPECT_EQ(reply.status, 200) << reply.body;
  }
  void add_queue(const std::string& name, int priority) {
    ask("CreateJobQueue",
        {{"jobQueueName", name},
         {"priority", priority},
         {"computeEnvironmentOrder", {{{"order", 1}, {"computeEnvironment", "spot"}}}}});
  }
  void define(const std::string& name) {
    const Json needs = {{{"type", "VCPU"}, {"value", "8"}},
                        {{"type", "MEMORY"}, {"value", "1024"}}};
    ask("RegisterJobDefinition", {{"jobDefinitionName", name},
                                  {"type", "container"},
                                  {"containerProperties",
                                   {{"image", "trainer"},
                                    {"command", {"train", "Ref::epochs"}},
                                    {"resourceRequirements", needs}}}});
  }
  std::string submit(const Json& more = Json::object()) {
    Json request = {{"jobName", "job"}, {"jobQueue", "queue"}, {"jobDefinition", "train"}};
    request.update(more);
    return ask("SubmitJob", request).at("jobId");
  }
  Json job(const std::string& id) { return ask("DescribeJobs", {{"jobs", {id}}}).at("jobs").at(0); }
  std::string status(const std::string& id) { return job(id).at("status"); }
  std::vector<RunJob> runs() const {
    std::vector<RunJob> found;
    for (const Order& it : orders) {
      if (const auto* run = std::get_if<RunJob>(&it)) found.push_back(*run);
    }
    return found;
  }
  template <class What>
  bool was_sent(const std::string& id) const {
    return std::any_of(orders.begin(), orders.end(), [&](const Order& it) {
      const auto* order = std::get_if<What>(&it);
      return order && order->run.job == id;
    });
  }
  // The newest attempt of the job ends.
  void end(const std::string& id, std::optional<int> exit_code, const std::string& reason = {}) {
    const int attempt =
        static_cast<int>(std::count_if(orders.begin(), orders.end(), [&](const Order& it) {
          const auto* run = std::get_if<RunJob>(&it);
          return run && run->run.job == id;
        }));
    batch.ended({id, attempt}, {exit_code, reason, {}}, now);
    wait(Duration{0});
  }
};

}  // namespace spotter::world::batch
