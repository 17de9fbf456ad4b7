#include "agent/aws/formats/batch.hpp"

#include <algorithm>
#include <climits>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

AwsCommand call(std::string action, const Json& body, Repeatable repeatable = Repeatable::Read) {
  return {"batch", std::move(action), json_text(body), repeatable};
}

// "lt-0123:7" -> an id and a version; a name likewise.
Json launch_template(const std::string& text) {
  const auto colon = text.find(':');
  const std::string which = text.substr(0, colon);
  Json document = {{which.starts_with("lt-") ? "launchTemplateId" : "launchTemplateName", which}};
  if (colon != std::string::npos) document["version"] = text.substr(colon + 1);
  return document;
}

Json resources_of(const BatchEnvironment& it) {
  Json resources = {{"type", "SPOT"},
                    {"allocationStrategy", "SPOT_PRICE_CAPACITY_OPTIMIZED"},
                    {"minvCpus", 0},
                    {"maxvCpus", it.max_vcpus},
                    {"instanceTypes", it.instance_types},
                    {"subnets", it.subnets},
                    {"instanceRole", it.instance_role}};
  if (!it.security_groups.empty()) resources["securityGroupIds"] = it.security_groups;
  if (!it.launch_template.empty())
    resources["launchTemplate"] = launch_template(it.launch_template);
  return resources;
}

Json order_of(const BatchQueue& it) {
  return Json::array({{{"order", 1}, {"computeEnvironment", it.environment}}});
}

Json variables(const std::map<std::string, std::string>& environment) {
  Json list = Json::array();
  for (const auto& [name, value] : environment) list.push_back({{"name", name}, {"value", value}});
  return list;
}

Json volume_of(const BatchVolume& it, const std::string& name) {
  if (it.file_system.empty()) return {{"name", name}, {"host", {{"sourcePath", it.folder}}}};
  Json efs = {{"fileSystemId", it.file_system}, {"transitEncryption", "ENABLED"}};
  if (!it.folder.empty()) efs["rootDirectory"] = it.folder;
  if (!it.access_point.empty())
    efs["authorizationConfig"] = {{"accessPointId", it.access_point}, {"iam", "ENABLED"}};
  return {{"name", name}, {"efsVolumeConfiguration", efs}};
}

Json requirements(const BatchDefinition& it) {
  Json list = {{{"type", "VCPU"}, {"value", std::to_string(it.vcpus)}},
               {{"type", "MEMORY"}, {"value", std::to_string(it.memory)}}};
  if (it.gpus > 0) list.push_back({{"type", "GPU"}, {"value", std::to_string(it.gpus)}});
  return list;
}

// The reasons are those that Batch gives: a host that was reclaimed says "Host EC2 (instance i-...)
// terminated.". https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html
Json retry_of(const BatchDefinition& it) {
  return {{"attempts", it.attempts},
          {"evaluateOnExit",
           {{{"onStatusReason", "Host EC2*"}, {"action", "RETRY"}},
            {{"onExitCode", std::to_string(interrupted_exit_code)}, {"action", "RETRY"}},
            {{"onReason", "*"}, {"action", "EXIT"}}}}};
}

Json document_of(const BatchDefinition& it) {
  Json container = {{"image", it.image},
                    {"command", it.command},
                    {"resourceRequirements", requirements(it)},
                    {"linuxParameters", {{"sharedMemorySize", it.shared_memory}}},
                    {"environment", variables(it.environment)},
                    {"volumes", Json::array()},
                    {"mountPoints", Json::array()}};
  if (!it.job_role.empty()) container["jobRoleArn"] = it.job_role;
  for (const BatchVolume& volume : it.volumes) {
    const std::string name = "volume-" + std::to_string(container["volumes"].size());
    container["volumes"].push_back(volume_of(volume, name));
    container["mountPoints"].push_back(
        {{"sourceVolume", name}, {"containerPath", volume.mount}, {"readOnly", volume.read_only}});
  }
  Json document = {{"jobDefinitionName", it.name},
                   {"type", "container"},
                   {"containerProperties", container},
                   {"retryStrategy", retry_of(it)},
                   {"tags", it.tags}};
  if (it.timeout) document["timeout"] = {{"attemptDurationSeconds", it.timeout->count()}};
  return document;
}

// All that `wanted` says, `there` says, too (and maybe more: defaults, and what is newer than us).
bool says(const Json& there, const Json& wanted) {
  if (wanted.is_object()) {
    if (!there.is_object()) return wanted.empty() && there.is_null();
    return std::ranges::all_of(wanted.items(), [&](const auto& item) {
      const auto found = there.find(item.key());
      if (found == there.end()) return says(Json(), item.value());
      // Batch takes RETRY and gives retry.
      if (item.key() == "action")
        return lower_case(json_text(*found)) == lower_case(json_text(item.value()));
      return says(*found, item.value());
    });
  }
  if (!wanted.is_array()) return there == wanted;
  if (!there.is_array()) return wanted.empty() && there.is_null();
  return std::ranges::equal(there, wanted, says);
}

// Compares as a set: AWS gives the names of a list in any order.
bool lists(const Json& there, const Json& wanted) {
  const auto set = [](const Json& list) { return std::set<Json>(list.begin(), list.end()); };
  return there.is_array() && wanted.is_array() ? set(there) == set(wanted) : says(there, wanted);
}

// The names of those settings that are not as wanted.
std::set<std::string> differences(const Json& there, const Json& wanted) {
  std::set<std::string> names;
  for (const auto& [name, value] : wanted.items()) {
    const auto found = there.find(name);
    if (!lists(found == there.end() ? Json() : *found, value)) names.insert(name);
  }
  return names;
}

Json only(const Json& settings, const std::set<std::string>& names) {
  Json some = Json::object();
  for (const auto& [name, value] : settings.items())
    if (names.contains(name)) some[name] = value;
  return some;
}

// Beside computeResources.
Json settings_of(const BatchEnvironment& it) {
  Json settings = {{"state", "ENABLED"}};
  if (!it.service_role.empty()) settings["serviceRole"] = it.service_role;
  return settings;
}

Result<std::vector<Json>> list_of(std::string_view json, const char* name) {
  const auto document = TRY(parse_json_object(json));
  const auto list = document.find(name);
  if (list == document.end() || !list->is_array())
    return failure("AWS Batch answers without " + std::string(name));
  for (const Json& each : *list)
    if (!each.is_object()) return failure("AWS Batch answers with a strange " + std::string(name));
  return list->get<std::vector<Json>>();
}

Tags tags_of(const Json& it) {
  Tags tags;
  for (const auto& [key, value] : object_field(it, "tags").items())
    if (value.is_string()) tags[key] = value.get<std::string>();
  return tags;
}

BatchResource resource(const Json& it, const char* arn) {
  return {.arn = text_field(it, arn),
          .status = text_field(it, "status"),
          .reason = text_field(it, "statusReason"),
          .tags = tags_of(it)};
}

Result<BatchJob> job_of(const Json& it) {
  BatchJob job{
      .id = text_field(it, "jobId"),
      .name = text_field(it, "jobName"),
      .status = text_field(it, "status"),
      .reason = text_field(it, "statusReason"),
      .created = static_cast<std::int64_t>(count_field(it, "createdAt", INT64_MAX).value_or(0)),
      .tags = tags_of(it)};
  if (job.id.empty() || job.status.empty())
    return failure("a job of AWS Batch has no id or status");
  const Json& container = object_field(it, "container");
  job.exit_code = count_field(container, "exitCode", INT_MAX);
  const Json& array = object_field(it, "arrayProperties");
  job.index = count_field(array, "index");
  if (!job.index) job.size = count_field(array, "size").value_or(0);
  for (const auto& [status, many] : object_field(array, "statusSummary").items())
    if (many.is_number_unsigned()) job.children[status] = many.get<std::size_t>();
  if (const auto list = container.find("environment"); list != container.end() && list->is_array())
    for (const Json& each : *list)
      if (each.is_object()) job.environment[text_field(each, "name")] = text_field(each, "value");
  return job;
}

Result<std::vector<BatchJob>> jobs_of(std::string_view json, const char* name) {
  const auto list = TRY(list_of(json, name));
  std::vector<BatchJob> jobs;
  jobs.reserve(list.size());
  for (const Json& each : list) jobs.push_back(TRY(job_of(each)));
  return jobs;
}

}  // namespace

AwsCommand create(const BatchEnvironment& it) {
  Json body = {{"computeEnvironmentName", it.name},
               {"type", "MANAGED"},
               {"state", "ENABLED"},
               {"computeResources", resources_of(it)},
               {"tags", it.tags}};
  if (!it.service_role.empty()) body["serviceRole"] = it.service_role;
  return call("CreateComputeEnvironment", body, Repeatable::Token);  // by its name
}

AwsCommand update(const BatchEnvironment& it, const BatchResource& there) {
  Json body = only(settings_of(it), there.differs);
  body["computeEnvironment"] = it.name;
  const Json resources = only(resources_of(it), there.differs);
  if (!resources.empty()) body["computeResources"] = resources;
  return call("UpdateComputeEnvironment", body, Repeatable::Token);
}

AwsCommand create(const BatchQueue& it) {
  return call("CreateJobQueue",
              {{"jobQueueName", it.name},
               {"state", "ENABLED"},
               {"priority", it.priority},
               {"computeEnvironmentOrder", order_of(it)},
               {"tags", it.tags}},
              Repeatable::Token);
}

AwsCommand update(const BatchQueue& it, const BatchResource& there) {
  Json body = only(
      {{"state", "ENABLED"}, {"priority", it.priority}, {"computeEnvironmentOrder", order_of(it)}},
      there.differs);
  body["jobQueue"] = it.name;
  return call("UpdateJobQueue", body, Repeatable::Token);
}

AwsCommand register_definition(const BatchDefinition& it) {
  // A second revision of the same content does no harm.
  return call("RegisterJobDefinition", document_of(it), Repeatable::Token);
}

AwsCommand submit(const BatchSubmission& it) {
  Json body = {{"jobName", it.name},
               {"jobQueue", it.queue},
               {"jobDefinition", it.definition},
               {"tags", it.tags}};
  if (it.size > 1) body["arrayProperties"] = {{"size", it.size}};
  if (!it.environment.empty())
    body["containerOverrides"] = {{"environment", variables(it.environment)}};
  return call("SubmitJob", body, Repeatable::No);
}

AwsCommand terminate(const std::string& job, const std::string& reason) {
  return call("TerminateJob", {{"jobId", job}, {"reason", reason}}, Repeatable::Token);
}

AwsCommand describe_environment(const std::string& name) {
  return call("DescribeComputeEnvironments", {{"computeEnvironments", Json::array({name})}});
}

AwsCommand describe_queue(const std::string& name) {
  return call("DescribeJobQueues", {{"jobQueues", Json::array({name})}});
}

AwsCommand describe_definitions(const std::string& name) {
  return call("DescribeJobDefinitions", {{"jobDefinitionName", name}, {"status", "ACTIVE"}});
}

AwsCommand describe_jobs(const std::vector<std::string>& ids) {
  return call("DescribeJobs", {{"jobs", ids}});
}

AwsCommand list_jobs(const std::string& queue, const std::string& name, const std::string& token) {
  const Json filter = {{"name", "JOB_NAME"}, {"values", Json::array({name})}};
  Json body = {{"jobQueue", queue}, {"filters", Json::array({filter})}};
  if (!token.empty()) body["nextToken"] = token;
  return call("ListJobs", body);
}

AwsCommand list_children(const std::string& array, const std::string& status,
                         const std::string& token) {
  Json body = {{"arrayJobId", array}, {"jobStatus", status}};
  if (!token.empty()) body["nextToken"] = token;
  return call("ListJobs", body);
}

Result<std::optional<BatchResource>> decode_environment(std::string_view json,
                                                        const BatchEnvironment& wanted) {
  const auto list = TRY(list_of(json, "computeEnvironments"));
  if (list.empty()) return std::nullopt;
  const Json& it = list.front();
  auto found = resource(it, "computeEnvironmentArn");
  found.differs = differences(it, settings_of(wanted));
  found.differs.merge(differences(object_field(it, "computeResources"), resources_of(wanted)));
  return found;
}

Result<std::optional<BatchResource>> decode_queue(std::string_view json, const BatchQueue& wanted) {
  const auto list = TRY(list_of(json, "jobQueues"));
  if (list.empty()) return std::nullopt;
  const Json& it = list.front();
  auto found = resource(it, "jobQueueArn");
  const auto order = it.find("computeEnvironmentOrder");
  const bool one = order != it.end() && order->is_array() && order->size() == 1;
  const std::string arn =
      one && order->front().is_object() ? text_field(order->front(), "computeEnvironment") : "";
  found.differs = differences(it, {{"state", "ENABLED"}, {"priority", wanted.priority}});
  if (arn.substr(arn.rfind('/') + 1) != wanted.environment)
    found.differs.insert("computeEnvironmentOrder");
  return found;
}

Result<std::string> decode_definition(std::string_view json, const BatchDefinition& wanted) {
  const auto list = TRY(list_of(json, "jobDefinitions"));
  const auto revision = [](const Json& it) { return count_field(it, "revision").value_or(0); };
  const auto newest = std::ranges::max_element(list, {}, revision);
  if (newest == list.end() || !says(*newest, document_of(wanted))) return std::string();
  return text_field(*newest, "jobDefinitionArn");
}

Result<std::string> decode_registered(std::string_view json) {
  const auto document = TRY(parse_json_object(json));
  return required_text(document, "jobDefinitionArn");
}

Result<std::string> decode_submitted(std::string_view json) {
  const auto document = TRY(parse_json_object(json));
  return required_text(document, "jobId");
}

Result<std::vector<BatchJob>> decode_jobs(std::string_view json) { return jobs_of(json, "jobs"); }

Result<Page<BatchJob>> decode_job_list(std::string_view json) {
  auto jobs = TRY(jobs_of(json, "jobSummaryList"));
  return Page<BatchJob>{std::move(jobs), text_field(*parse_json_object(json), "nextToken")};
}

}  // namespace spotter::wire
