// The Describe and List operations.
#include <algorithm>
#include <cctype>

#include "tests/world/batch/jobs.hpp"
#include "tests/world/batch/operations.hpp"
#include "tests/world/batch/resources.hpp"

namespace spotter::world::batch {
namespace {

std::int64_t milliseconds(const State& state, Time time) {
  return state.world.wall(time).time_since_epoch().count();
}

void put_text(Json& into, const char* name, const std::string& text) {
  if (!text.empty()) into[name] = text;
}

void put_time(Json& into, const char* name, const State& state, std::optional<Time> time) {
  if (time) into[name] = milliseconds(state, *time);
}

std::string instance_arn(const State& state, const InstanceId& host) {
  const auto& settings = state.world.cloud().settings;
  return "arn:aws:ecs:" + settings.region.str() + ':' + settings.account +
         ":container-instance/AWSBatch/" + host.str();
}

Json container_of(const State& state, const Attempt& attempt) {
  const auto& settings = state.world.cloud().settings;
  Json container = {{"containerInstanceArn", instance_arn(state, attempt.host)},
                    {"taskArn", "arn:aws:ecs:" + settings.region.str() + ':' + settings.account +
                                    ":task/AWSBatch/" + attempt.task},
                    {"networkInterfaces", Json::array()}};
  if (attempt.started) container["logStreamName"] = attempt.log_stream;
  if (attempt.ending.exit_code) container["exitCode"] = *attempt.ending.exit_code;
  put_text(container, "reason", attempt.ending.reason);
  return container;
}

Json attempts_of(const State& state, const Job& job) {
  Json list = Json::array();
  for (const Attempt& it : job.attempts) {
    if (!it.stopped) continue;
    Json attempt = {{"container", container_of(state, it)},
                    {"statusReason", it.ending.status_reason}};
    put_time(attempt, "startedAt", state, it.started);
    put_time(attempt, "stoppedAt", state, it.stopped);
    list.push_back(std::move(attempt));
  }
  return list;
}

Json retry_json(const RetryStrategy& strategy) {
  Json rules = Json::array();
  for (const ExitRule& it : strategy.rules) {
    Json rule = {{"action", it.retry ? "RETRY" : "EXIT"}};
    if (it.on_status_reason) rule["onStatusReason"] = *it.on_status_reason;
    if (it.on_reason) rule["onReason"] = *it.on_reason;
    if (it.on_exit_code) rule["onExitCode"] = *it.on_exit_code;
    rules.push_back(std::move(rule));
  }
  return {{"attempts", strategy.attempts}, {"evaluateOnExit", rules}};
}

Json array_of(const Job& job) {
  if (job.index) return {{"index", *job.index}, {"size", job.what->size}};
  Json summary;
  for (std::size_t i = 0; i < statuses; ++i) {
    summary[std::string(name(static_cast<Status>(i)))] = job.children[i];
  }
  return {{"statusSummary", summary}, {"size", job.what->size}};
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

bool like(const std::string& pattern, const std::string& text) {
  if (!pattern.ends_with('*')) return pattern == text;
  return text.starts_with(pattern.substr(0, pattern.size() - 1));
}

// One filter of ListJobs, as its documentation describes these.
struct ListFilter {
  std::string name;
  std::vector<std::string> values;

  bool holds(const State& state, const Job& job) const {
    return std::any_of(values.begin(), values.end(), [&](const std::string& value) {
      if (name == "JOB_NAME") return like(lower(value), lower(job.what->name));
      const std::string& arn = job.what->definition;
      if (name == "JOB_DEFINITION" && value.starts_with("arn:")) return like(value, arn);
      const std::string brief = arn.substr(arn.rfind('/') + 1);
      if (name == "JOB_DEFINITION") return like(value, brief.substr(0, brief.find(':')));
      const std::int64_t at = std::atoll(value.c_str());
      const std::int64_t created = milliseconds(state, job.created);
      return name == "BEFORE_CREATED_AT" ? created < at : created > at;
    });
  }
};

std::optional<ListFilter> read_filter(const Reader& reader) {
  const auto filters = reader.objects("filters");
  if (filters.empty()) return std::nullopt;
  if (filters.size() > 1) reader.refuse("Only one filter can be used at a time");
  const Reader& it = filters[0];
  return ListFilter{
      it.one_of("name", {"JOB_NAME", "JOB_DEFINITION", "BEFORE_CREATED_AT", "AFTER_CREATED_AT"}),
      it.texts("values")};
}

}  // namespace

Json describe(const State& state, const Job& job) {
  const Submission& what = *job.what;
  Json it = {{"jobArn", state.arn("job", job.id)},
             {"jobName", what.name},
             {"jobId", job.id},
             {"jobQueue", state.arn("job-queue", what.queue)},
             {"status", name(job.status)},
             {"attempts", attempts_of(state, job)},
             {"createdAt", milliseconds(state, job.created)},
             {"retryStrategy", retry_json(what.retry)},
             {"dependsOn", what.depends_on},
             {"jobDefinition", what.definition},
             {"parameters", what.parameters},
             {"container", what.container},
             {"tags", job.tags},
             {"isCancelled", job.cancelled},
             {"isTerminated", job.terminated},
             {"platformCapabilities", {"EC2"}}};
  Json& container = it["container"];
  for (const char* list : {"volumes", "mountPoints", "ulimits", "secrets", "networkInterfaces"}) {
    if (!container.contains(list)) container[list] = Json::array();
  }
  if (!job.attempts.empty()) container.update(container_of(state, job.attempts.back()));
  put_text(it, "statusReason", job.status_reason);
  put_time(it, "startedAt", state, job.started);
  put_time(it, "stoppedAt", state, job.stopped);
  if (what.size > 0) it["arrayProperties"] = array_of(job);
  if (what.timeout) it["timeout"] = {{"attemptDurationSeconds", what.timeout->count() / 1000}};
  return it;
}

Json summarize(const State& state, const Job& job) {
  Json it = {{"jobArn", state.arn("job", job.id)}, {"jobId", job.id},
             {"jobName", job.what->name},          {"createdAt", milliseconds(state, job.created)},
             {"status", name(job.status)},         {"jobDefinition", job.what->definition}};
  put_text(it, "statusReason", job.status_reason);
  put_time(it, "startedAt", state, job.started);
  put_time(it, "stoppedAt", state, job.stopped);
  if (!job.attempts.empty()) {
    const Ending& ending = job.attempts.back().ending;
    Json container = Json::object();
    if (ending.exit_code) container["exitCode"] = *ending.exit_code;
    put_text(container, "reason", ending.reason);
    it["container"] = container;
  }
  if (job.index) it["arrayProperties"] = {{"index", *job.index}};
  if (job.is_array()) it["arrayProperties"] = {{"size", job.what->size}};
  return it;
}

Json describe(const ComputeEnvironment& it) {
  Json result = {
      {"computeEnvironmentName", it.name},
      {"computeEnvironmentArn", it.arn},
      {"type", it.managed ? "MANAGED" : "UNMANAGED"},
      {"state", it.enabled ? "ENABLED" : "DISABLED"},
      {"status", name(it.condition)},
      {"statusReason", it.condition == Condition::Valid ? "ComputeEnvironment Healthy" : ""},
      {"tags", it.tags},
      {"containerOrchestrationType", "ECS"},
      {"uuid", it.uuid}};
  if (!it.resources.is_null()) result["computeResources"] = it.resources;
  put_text(result, "serviceRole", it.service_role);
  return result;
}

Json describe(const State& state, const JobQueue& it) {
  Json order = Json::array();
  for (std::size_t i = 0; i < it.environments.size(); ++i) {
    order.push_back({{"order", it.orders[i]},
                     {"computeEnvironment", state.arn("compute-environment", it.environments[i])}});
  }
  return {{"jobQueueName", it.name},
          {"jobQueueArn", it.arn},
          {"state", it.enabled ? "ENABLED" : "DISABLED"},
          {"status", name(it.condition)},
          {"statusReason", it.condition == Condition::Valid ? "JobQueue Healthy" : ""},
          {"priority", it.priority},
          {"computeEnvironmentOrder", order},
          {"tags", it.tags}};
}

Json describe(const JobDefinition& it) {
  Json result = it.document;
  result["jobDefinitionArn"] = it.arn;
  result["revision"] = it.revision;
  result["status"] = it.active ? "ACTIVE" : "INACTIVE";
  result["tags"] = it.tags;
  return result;
}

// https://docs.aws.amazon.com/batch/latest/APIReference/API_ListJobs.html
Answer list_jobs(State& state, const Json& request) {
  Problem problem;
  const Reader reader(request, problem);
  const std::string queue_name = reader.text("jobQueue");
  const std::string array = reader.text("arrayJobId");
  const JobQueue* const queue = Resources(state).queue(queue_name);
  if (queue_name.empty() == array.empty()) {
    reader.refuse("exactly one of jobQueue, arrayJobId, multiNodeJobId must be given");
  }
  if (!queue_name.empty() && !queue) reader.refuse("Job queue " + queue_name + " does not exist");
  if (!array.empty() && !Jobs(state).find(array)) reader.refuse("Job " + array + " does not exist");
  const std::string asked = reader.text("jobStatus");
  const auto status = asked.empty() ? Status::Running : status_of(asked);
  if (!status) reader.refuse("jobStatus '" + asked + "' is not known");
  const auto filter = read_filter(reader);
  if (problem) return tl::unexpected(*problem);
  std::vector<const Job*> found;
  for (const auto& [id, job] : state.jobs) {
    const bool mine = array.empty() ? !job.index && job.what->queue == queue->name
                                    : job.index && id.starts_with(array + ':');
    const bool chosen = filter && array.empty() ? filter->holds(state, job) : job.status == *status;
    if (mine && chosen) found.push_back(&job);
  }
  std::stable_sort(found.begin(), found.end(), [](const Job* a, const Job* b) {
    return a->index && b->index ? *a->index < *b->index : a->created > b->created;
  });
  std::vector<Json> rows;
  for (const Job* const job : found) rows.push_back(summarize(state, *job));
  Json answer = page(reader, "jobSummaryList", std::move(rows), 1000);
  if (problem) return tl::unexpected(*problem);
  return answer;
}

}  // namespace spotter::world::batch
