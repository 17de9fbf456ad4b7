#include "tests/world/batch/resources.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "tests/world/batch/instance_types.hpp"
#include "tests/world/batch/plan.hpp"

namespace spotter::world::batch {
namespace {

constexpr int any_count = std::numeric_limits<int>::max();
constexpr std::size_t environments_of_a_queue = 3;
const std::vector<std::string> states = {"ENABLED", "DISABLED"};

std::string without_arn(const std::string& reference) {
  return reference.substr(reference.rfind('/') + 1);  // npos + 1 is 0
}

// AWS's conditions for managed EC2 resources:
// https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html
void check_resources(const Reader& it) {
  const std::string type = it.one_of("type", {"EC2", "SPOT", "FARGATE", "FARGATE_SPOT"});
  if (type.empty()) it.refuse("computeResources type must not be null");
  if (type.starts_with("FARGATE")) it.refuse("Fargate is not emulated");
  if (!it.integer("maxvCpus", 0, any_count)) it.refuse("maxvCpus must not be null");
  const int least = it.integer("minvCpus", 0, any_count).value_or(0);
  it.integer("desiredvCpus", 0, any_count);
  if (least > it.integer("maxvCpus", 0, any_count).value_or(0)) {
    it.refuse("minvCpus must not be greater than maxvCpus");
  }
  it.integer("bidPercentage", 1, 100);
  for (const char* name : {"imageId", "ec2KeyPair"}) it.text(name);
  it.tags();
  const Json& launch = it.get("launchTemplate");
  if (launch.is_object() &&
      launch.contains("launchTemplateId") == launch.contains("launchTemplateName"))
    it.refuse("launchTemplate must name launchTemplateId or launchTemplateName, but not both");
  if (it.texts("subnets").empty()) it.refuse("subnets must not be empty");
  if (it.required("instanceRole").empty()) return;
  const auto types = it.texts("instanceTypes");
  if (types.empty()) it.refuse("instanceTypes must not be empty");
  for (const std::string& name : types) {
    if (expand_types({name}).empty()) it.refuse("instanceTypes: '" + name + "' is not known");
  }
  if (it.texts("securityGroupIds").empty() && !it.has("launchTemplate")) {
    it.refuse("securityGroupIds must be specified, here or in the launch template");
  }
  const std::string strategy =
      it.one_of("allocationStrategy", {"BEST_FIT", "BEST_FIT_PROGRESSIVE",
                                       "SPOT_CAPACITY_OPTIMIZED", "SPOT_PRICE_CAPACITY_OPTIMIZED"});
  if (type == "EC2" && strategy.starts_with("SPOT_"))
    it.refuse("Allocation strategy " + strategy + " is only for compute resources of type SPOT");
  if (type == "SPOT" && (strategy.empty() || strategy == "BEST_FIT"))
    it.required("spotIamFleetRole");
}

// Batch replaces the hosts, as these need, only by its own role, and never exchanges that role for
// another. https://docs.aws.amazon.com/batch/latest/APIReference/API_UpdateComputeEnvironment.html
void check_update(const Reader& reader, const std::string& role) {
  const auto is_batchs = [](const std::string& it) {
    return it.empty() || it.find("AWSServiceRoleForBatch") != it.npos;
  };
  if (reader.has("serviceRole") && is_batchs(reader.text("serviceRole")) != is_batchs(role))
    reader.refuse("a service-linked role and a regular one cannot take each other's place");
  const Json& changes = reader.get("computeResources");
  if (is_batchs(role) || !changes.is_object()) return;
  for (const auto& [name, value] : changes.items())
    if (name != "minvCpus" && name != "maxvCpus" && name != "desiredvCpus")
      reader.refuse(name + " can be updated only with the AWSServiceRoleForBatch role");
}

template <class Row>
Row* find(std::map<std::string, Row>& rows, const std::string& reference) {
  const auto found = rows.find(without_arn(reference));
  return found == rows.end() ? nullptr : &found->second;
}

}  // namespace

ComputeEnvironment* Resources::environment(const std::string& reference) {
  return find(state_.environments, reference);
}
JobQueue* Resources::queue(const std::string& reference) { return find(state_.queues, reference); }

JobDefinition* Resources::definition(const std::string& reference) {
  const std::string text = without_arn(reference);
  const auto colon = text.find(':');
  const auto found = state_.definitions.find(text.substr(0, colon));
  if (found == state_.definitions.end()) return nullptr;
  auto& revisions = found->second;
  if (colon == std::string::npos) {
    const auto newest = std::find_if(revisions.rbegin(), revisions.rend(),
                                     [](const auto& it) { return it.active; });
    return newest == revisions.rend() ? nullptr : &*newest;
  }
  const auto same = std::find_if(revisions.begin(), revisions.end(), [&](const auto& it) {
    return std::to_string(it.revision) == text.substr(colon + 1);
  });
  return same == revisions.end() ? nullptr : &*same;
}

Tags* Resources::tags(const std::string& arn) {
  if (auto* it = environment(arn); it && it->arn == arn) return &it->tags;
  if (auto* it = queue(arn); it && it->arn == arn) return &it->tags;
  if (auto* it = definition(arn); it && it->arn == arn) return &it->tags;
  const auto job = state_.jobs.find(without_arn(arn));
  if (job != state_.jobs.end() && state_.arn("job", job->first) == arn) return &job->second.tags;
  return nullptr;
}

void Resources::change(ComputeEnvironment& it, Condition condition) {
  it.condition = condition;
  it.change = state_.number();
  state_.schedule(state_.random.within(state_.settings.resource_change),
                  EnvironmentSettles{it.name, it.change});
}

void Resources::change(JobQueue& it, Condition condition) {
  it.condition = condition;
  it.change = state_.number();
  state_.schedule(state_.random.within(state_.settings.resource_change),
                  QueueSettles{it.name, it.change});
}

Expected<ComputeEnvironment> Resources::create_environment(const Json& request) {
  Problem problem;
  const Reader reader(request, problem);
  ComputeEnvironment it{.name = reader.identifier("computeEnvironmentName")};
  it.managed = reader.one_of("type", {"MANAGED", "UNMANAGED"}) == "MANAGED";
  reader.required("type");
  it.enabled = reader.one_of("state", states) != "DISABLED";
  it.resources = reader.get("computeResources");
  it.service_role = reader.text("serviceRole");
  it.tags = reader.tags();
  if (it.managed && it.resources.is_null()) reader.refuse("computeResources must be provided");
  if (reader.has("eksConfiguration")) reader.refuse("EKS is not emulated");
  if (!it.resources.is_null()) check_resources(Reader(it.resources, problem));
  if (problem) return tl::unexpected(*problem);
  if (environment(it.name)) return client_refusal("Object already exists");
  it.arn = state_.arn("compute-environment", it.name);
  it.uuid = state_.random.uuid();
  auto& made = state_.environments[it.name] = std::move(it);
  change(made, Condition::Creating);
  return made;
}

Expected<ComputeEnvironment> Resources::update_environment(const Json& request) {
  Problem problem;
  const Reader reader(request, problem);
  const std::string reference = reader.required("computeEnvironment");
  ComputeEnvironment* const found = environment(reference);
  if (problem) return tl::unexpected(*problem);
  if (!found) return client_refusal(reference + " does not exist");
  if (found->condition != Condition::Valid) {
    return client_refusal("Cannot update, resource is being modified.");
  }
  check_update(reader, found->service_role);
  ComputeEnvironment after = *found;
  if (reader.has("state")) after.enabled = reader.one_of("state", states) == "ENABLED";
  if (reader.has("serviceRole")) after.service_role = reader.text("serviceRole");
  if (const Json& changes = reader.get("computeResources"); changes.is_object()) {
    if (!after.managed) reader.refuse("an unmanaged environment has no computeResources");
    for (const auto& [name, value] : changes.items()) after.resources[name] = value;
    check_resources(Reader(after.resources, problem));
  }
  if (problem) return tl::unexpected(*problem);
  *found = std::move(after);
  change(*found, Condition::Updating);
  return *found;
}

Expected<void> Resources::delete_environment(const Json& request) {
  Problem problem;
  const std::string reference = Reader(request, problem).required("computeEnvironment");
  ComputeEnvironment* const it = environment(reference);
  if (problem) return tl::unexpected(*problem);
  if (!it) return {};  // deleted, as far as AWS is concerned
  if (it->condition != Condition::Valid) {
    return client_refusal("Cannot delete, resource is being modified.");
  }
  if (it->enabled) return client_refusal("Cannot delete, state must be DISABLED.");
  for (const auto& [name, queue] : state_.queues) {
    const auto& used = queue.environments;
    if (std::find(used.begin(), used.end(), it->name) != used.end()) {
      return client_refusal("Cannot delete, found existing JobQueue relationship");
    }
  }
  change(*it, Condition::Deleting);
  return {};
}

void Resources::read_orders(const Reader& reader, JobQueue& queue) {
  std::map<int, std::string> given;
  std::set<std::string> named;
  for (const Reader& order : reader.objects("computeEnvironmentOrder")) {
    const std::string reference = order.required("computeEnvironment");
    if (!order.has("order")) order.refuse("order must not be null");
    const ComputeEnvironment* const it = environment(reference);
    if (!it) order.refuse("ComputeEnvironment " + reference + " does not exist");
    if (it && it->condition != Condition::Valid) {
      order.refuse(it->arn + " is not in the VALID state");
    }
    const int place = order.integer("order", 0, any_count).value_or(0);
    if (it && !named.insert(it->name).second)
      order.refuse(it->arn + " is specified more than once in computeEnvironmentOrder");
    if (!given.emplace(place, it ? it->name : "").second)
      order.refuse("computeEnvironmentOrder has the order " + std::to_string(place) + " twice");
  }
  if (given.empty() || given.size() > environments_of_a_queue) {
    reader.refuse("computeEnvironmentOrder must name 1 to 3 compute environments");
  }
  queue.environments.clear();
  queue.orders.clear();
  for (const auto& [order, name] : given) {
    queue.environments.push_back(name);
    queue.orders.push_back(order);
  }
}

Expected<JobQueue> Resources::create_queue(const Json& request) {
  Problem problem;
  const Reader reader(request, problem);
  JobQueue it{.name = reader.identifier("jobQueueName")};
  if (!reader.has("priority")) reader.refuse("priority must not be null");
  it.priority = reader.integer("priority", 0, any_count).value_or(0);
  it.enabled = reader.one_of("state", states) != "DISABLED";
  it.tags = reader.tags();
  if (reader.has("schedulingPolicyArn")) reader.refuse("scheduling policies are not emulated");
  read_orders(reader, it);
  if (problem) return tl::unexpected(*problem);
  if (queue(it.name)) return client_refusal("Object already exists");
  it.arn = state_.arn("job-queue", it.name);
  auto& made = state_.queues[it.name] = std::move(it);
  change(made, Condition::Creating);
  return made;
}

Expected<JobQueue> Resources::update_queue(const Json& request) {
  Problem problem;
  const Reader reader(request, problem);
  const std::string reference = reader.required("jobQueue");
  JobQueue* const found = queue(reference);
  if (problem) return tl::unexpected(*problem);
  if (!found) return client_refusal(reference + " does not exist");
  if (found->condition != Condition::Valid) {
    return client_refusal("Cannot update, resource is being modified.");
  }
  JobQueue after = *found;
  if (reader.has("state")) after.enabled = reader.one_of("state", states) == "ENABLED";
  after.priority = reader.integer("priority", 0, any_count).value_or(after.priority);
  if (reader.has("computeEnvironmentOrder")) read_orders(reader, after);
  if (problem) return tl::unexpected(*problem);
  *found = std::move(after);
  change(*found, Condition::Updating);
  return *found;
}

Expected<void> Resources::delete_queue(const Json& request) {
  Problem problem;
  const std::string reference = Reader(request, problem).required("jobQueue");
  JobQueue* const it = queue(reference);
  if (problem) return tl::unexpected(*problem);
  if (!it) return {};
  if (it->condition != Condition::Valid) {
    return client_refusal("Cannot delete, resource is being modified.");
  }
  if (it->enabled) return client_refusal("Cannot delete, state must be DISABLED.");
  change(*it, Condition::Deleting);
  return {};
}

Expected<JobDefinition> Resources::register_definition(const Json& request) {
  Problem problem;
  const Reader reader(request, problem);
  const std::string name = reader.identifier("jobDefinitionName");
  const std::string type = reader.one_of("type", {"container", "multinode"});
  if (type.empty()) reader.refuse("type must not be null");
  if (type == "multinode") reader.refuse("multi-node parallel jobs are not emulated");
  const Tags tags = reader.tags();
  check_definition(reader);
  if (problem) return tl::unexpected(*problem);
  auto& revisions = state_.definitions[name];
  JobDefinition made{.name = name,
                     .revision = static_cast<int>(revisions.size()) + 1,
                     .document = request,
                     .tags = tags};
  made.arn = state_.arn("job-definition", name + ':' + std::to_string(made.revision));
  return revisions.emplace_back(std::move(made));
}

Expected<void> Resources::deregister_definition(const Json& request) {
  Problem problem;
  const std::string reference = Reader(request, problem).required("jobDefinition");
  if (problem) return tl::unexpected(*problem);
  if (without_arn(reference).find(':') == std::string::npos) {
    return client_refusal("jobDefinition must be a name with its revision, or an ARN");
  }
  JobDefinition* const it = definition(reference);
  if (!it) return client_refusal("Job definition " + reference + " does not exist");
  it->active = false;
  return {};
}

void Resources::on(const EnvironmentSettles& happening) {
  const auto found = state_.environments.find(happening.name);
  if (found == state_.environments.end() || found->second.change != happening.change) return;
  state_.changed = true;
  if (found->second.condition != Condition::Deleting) {
    found->second.condition = Condition::Valid;
    return;
  }
  state_.environments.erase(found);  // its hosts go at the scheduler's next look
}

// The jobs of a queue that goes were ended by whoever deleted it (Jobs::end_queue).
void Resources::on(const QueueSettles& happening) {
  const auto found = state_.queues.find(happening.name);
  if (found == state_.queues.end() || found->second.change != happening.change) return;
  state_.changed = true;
  if (found->second.condition != Condition::Deleting) {
    found->second.condition = Condition::Valid;
    return;
  }
  state_.runnable.erase(happening.name);
  state_.queues.erase(found);
}

}  // namespace spotter::world::batch
