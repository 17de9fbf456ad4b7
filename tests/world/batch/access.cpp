#include "tests/world/batch/access.hpp"

#include "tests/world/ec2_access.hpp"

namespace spotter::world::batch {
namespace {

// Collects what one call needs.
class BatchNeeds {
 public:
  BatchNeeds(const State& state, const Asked& asked) : state_(state), asked_(asked) {}

  std::vector<AccessRequest> all() {
    const std::string& action = asked_.action;
    if (action.starts_with("Describe") || action == "ListJobs") {
      add("*");
    } else if (!asked_.arn.empty()) {
      add(asked_.arn);
    } else if (action.ends_with("ComputeEnvironment")) {
      environment(action.starts_with("Create"));
    } else if (action.ends_with("JobQueue")) {
      queue(action.starts_with("Create"));
    } else if (action == "RegisterJobDefinition") {
      made("job-definition/" + text(asked_.body, "jobDefinitionName"));
      const auto container = asked_.body.find("containerProperties");
      if (container != asked_.body.end() && container->is_object())
        for (const char* role : {"jobRoleArn", "executionRoleArn"})
          pass(text(*container, role), "ecs-tasks.amazonaws.com");
    } else if (action.ends_with("JobDefinition")) {
      one("job-definition", "jobDefinition");
    } else if (action == "SubmitJob") {
      one("job-queue", "jobQueue");
      one("job-definition", "jobDefinition");
      add(state_.arn("job", "*"));
      if (asked_.body.contains("tags")) add(state_.arn("job", "*"), "batch:TagResource");
    } else {
      const std::string id = text(asked_.body, "jobId");
      add(state_.arn("job", id));
      const auto found = state_.jobs.find(id);
      if (found != state_.jobs.end() && !found->second.index)  // a child has none
        for (const auto& [key, value] : found->second.tags)
          needs_.back().know("aws:ResourceTag/" + key, value);
    }
    return std::move(needs_);
  }

 private:
  static std::string text(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  }
  void add(const std::string& resource, const std::string& action = {}) {
    AccessRequest& it = needs_.emplace_back(
        AccessRequest{action.empty() ? "batch:" + asked_.action : action, resource});
    it.know("aws:RequestedRegion", state_.world.cloud().settings.region.str());
    const auto tags = asked_.body.find("tags");
    if (tags == asked_.body.end() || !tags->is_object()) return;
    for (const auto& [key, value] : tags->items()) {
      it.know("aws:TagKeys", key);
      if (value.is_string()) it.know("aws:RequestTag/" + key, value.get<std::string>());
    }
  }
  // By name or ARN.
  void one(const std::string& kind, const char* field) {
    const std::string reference = text(asked_.body, field);
    add(state_.arn(kind, reference.substr(reference.rfind('/') + 1)));
  }
  void made(const std::string& name) {
    const auto slash = name.find('/');
    const std::string arn = state_.arn(name.substr(0, slash), name.substr(slash + 1));
    add(arn);
    if (asked_.body.contains("tags")) add(arn, "batch:TagResource");
  }
  void pass(const std::string& role, const char* service) {
    if (role.empty()) return;
    const std::string begin = "arn:aws:iam::" + state_.world.cloud().settings.account + ":role/";
    const std::string arn = role.starts_with("arn:") && role.find(":instance-profile/") == role.npos
                                ? role
                                : begin + role.substr(role.rfind('/') + 1);
    add(arn, "iam:PassRole");
    needs_.back().know("iam:PassedToService", service);
  }
  void environment(bool makes) {
    if (makes)
      made("compute-environment/" + text(asked_.body, "computeEnvironmentName"));
    else
      one("compute-environment", "computeEnvironment");
    pass(text(asked_.body, "serviceRole"), "batch.amazonaws.com");
    const auto resources = asked_.body.find("computeResources");
    if (resources != asked_.body.end() && resources->is_object())
      pass(text(*resources, "instanceRole"), "ec2.amazonaws.com");
    // The account's first one makes Batch's own role.
    if (!makes || !state_.environments.empty() || asked_.body.contains("serviceRole")) return;
    add("arn:aws:iam::" + state_.world.cloud().settings.account +
            ":role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch",
        "iam:CreateServiceLinkedRole");
    needs_.back().know("iam:AWSServiceName", "batch.amazonaws.com");
  }
  void queue(bool makes) {
    if (makes)
      made("job-queue/" + text(asked_.body, "jobQueueName"));
    else
      one("job-queue", "jobQueue");
    const auto order = asked_.body.find("computeEnvironmentOrder");
    if (order == asked_.body.end() || !order->is_array()) return;
    for (const Json& it : *order) {
      const std::string name = it.is_object() ? text(it, "computeEnvironment") : "";
      add(state_.arn("compute-environment", name.substr(name.rfind('/') + 1)));
    }
  }

  const State& state_;
  const Asked& asked_;
  std::vector<AccessRequest> needs_;
};

}  // namespace

std::optional<ApiError> refuse_access(const State& state, const Asked& asked) {
  const Cloud& cloud = state.world.cloud();
  if (!cloud.access || asked.caller.empty()) return std::nullopt;
  for (const AccessRequest& it : BatchNeeds(state, asked).all())
    if (!cloud.access->allows(asked.caller, it))
      return ApiError{"AccessDeniedException", denial(cloud, asked.caller, it), 403};
  return std::nullopt;
}

}  // namespace spotter::world::batch
