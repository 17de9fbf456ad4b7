#include "tests/world/batch/operations.hpp"

#include <algorithm>
#include <charconv>

#include "tests/world/batch/jobs.hpp"
#include "tests/world/batch/resources.hpp"

namespace spotter::world::batch {
namespace {

constexpr int most_described = 100;

Json named(const char* kind, const std::string& name, const std::string& arn) {
  return {{kind + std::string("Name"), name}, {kind + std::string("Arn"), arn}};
}

template <class Row>
Answer answered(const Expected<Row>& row, const char* kind) {
  if (!row) return tl::unexpected(row.error());
  return named(kind, row->name, row->arn);
}

Answer answered(const Expected<void>& done) {
  if (!done) return tl::unexpected(done.error());
  return Json::object();
}

Answer create_environment(State& state, const Json& request, const std::string&) {
  return answered(Resources(state).create_environment(request), "computeEnvironment");
}
Answer update_environment(State& state, const Json& request, const std::string&) {
  return answered(Resources(state).update_environment(request), "computeEnvironment");
}
Answer delete_environment(State& state, const Json& request, const std::string&) {
  return answered(Resources(state).delete_environment(request));
}
Answer create_queue(State& state, const Json& request, const std::string&) {
  return answered(Resources(state).create_queue(request), "jobQueue");
}
Answer update_queue(State& state, const Json& request, const std::string&) {
  return answered(Resources(state).update_queue(request), "jobQueue");
}

Answer delete_queue(State& state, const Json& request, const std::string&) {
  const auto deleted = Resources(state).delete_queue(request);
  if (!deleted) return tl::unexpected(deleted.error());
  const JobQueue* const queue = Resources(state).queue(request.value("jobQueue", ""));
  if (queue) Jobs(state).end_all_of(queue->name);
  return Json::object();
}

Answer register_definition(State& state, const Json& request, const std::string&) {
  const auto made = Resources(state).register_definition(request);
  auto answer = answered(made, "jobDefinition");
  if (answer) (*answer)["revision"] = made->revision;
  return answer;
}
Answer deregister_definition(State& state, const Json& request, const std::string&) {
  return answered(Resources(state).deregister_definition(request));
}

Answer submit(State& state, const Json& request, const std::string& caller) {
  const auto job = Jobs(state).submit(request, caller);
  if (!job) return tl::unexpected(job.error());
  return Json{
      {"jobName", job->what->name}, {"jobId", job->id}, {"jobArn", state.arn("job", job->id)}};
}
Answer cancel(State& state, const Json& request, const std::string&) {
  return answered(Jobs(state).cancel(request));
}
Answer terminate(State& state, const Json& request, const std::string&) {
  return answered(Jobs(state).terminate(request));
}

Answer describe_jobs(State& state, const Json& request, const std::string&) {
  Problem problem;
  const Reader reader(request, problem);
  const auto ids = reader.texts("jobs");
  if (ids.empty()) reader.refuse("jobs must not be empty");
  if (ids.size() > most_described) reader.refuse("jobs may name 100 jobs at most");
  if (problem) return tl::unexpected(*problem);
  Json list = Json::array();
  for (const std::string& id : ids) {
    const std::string plain = id.substr(id.rfind('/') + 1);  // or an ARN
    if (const Job* const job = Jobs(state).find(plain)) list.push_back(describe(state, *job));
  }
  return Json{{"jobs", list}};
}

template <class Row>
bool is_named(const std::vector<std::string>& names, const Row& row) {
  return names.empty() || std::find(names.begin(), names.end(), row.name) != names.end() ||
         std::find(names.begin(), names.end(), row.arn) != names.end();
}

Answer describe_environments(State& state, const Json& request, const std::string&) {
  Problem problem;
  const Reader reader(request, problem);
  const auto names = reader.texts("computeEnvironments");
  std::vector<Json> rows;
  for (const auto& [name, it] : state.environments) {
    if (is_named(names, it)) rows.push_back(describe(it));
  }
  Json answer = page(reader, "computeEnvironments", std::move(rows));
  if (problem) return tl::unexpected(*problem);
  return answer;
}

Answer describe_queues(State& state, const Json& request, const std::string&) {
  Problem problem;
  const Reader reader(request, problem);
  const auto names = reader.texts("jobQueues");
  std::vector<Json> rows;
  for (const auto& [name, it] : state.queues) {
    if (is_named(names, it)) rows.push_back(describe(state, it));
  }
  Json answer = page(reader, "jobQueues", std::move(rows));
  if (problem) return tl::unexpected(*problem);
  return answer;
}

// "jobDefinitions" are ARNs or NAME:REVISION; newest first.
Answer describe_definitions(State& state, const Json& request, const std::string&) {
  Problem problem;
  const Reader reader(request, problem);
  const auto references = reader.texts("jobDefinitions");
  const std::string name = reader.text("jobDefinitionName");
  const std::string status = reader.one_of("status", {"ACTIVE", "INACTIVE"});
  std::vector<Json> rows;
  for (const auto& [each_name, revisions] : state.definitions) {
    for (auto it = revisions.rbegin(); it != revisions.rend(); ++it) {
      const std::string brief = it->name + ':' + std::to_string(it->revision);
      const bool asked = references.empty() ||
                         std::count(references.begin(), references.end(), brief) ||
                         std::count(references.begin(), references.end(), it->arn);
      const bool same_name = name.empty() || name == it->name;
      const bool same_status = status.empty() || (status == "ACTIVE") == it->active;
      if (asked && same_name && same_status) rows.push_back(describe(*it));
    }
  }
  Json answer = page(reader, "jobDefinitions", std::move(rows));
  if (problem) return tl::unexpected(*problem);
  return answer;
}

Answer list(State& state, const Json& request, const std::string&) {
  return list_jobs(state, request);
}

}  // namespace

Json page(const Reader& reader, const char* list, std::vector<Json> rows, int most) {
  const std::string token = reader.text("nextToken");
  const int size = reader.integer("maxResults", 1, most).value_or(most);
  std::size_t first = 0;
  const auto [end, failed] = std::from_chars(token.data(), token.data() + token.size(), first);
  if (!token.empty() && (failed != std::errc{} || end != token.data() + token.size())) {
    reader.refuse("Invalid nextToken");
  }
  first = std::min(first, rows.size());
  const std::size_t last = std::min(first + static_cast<std::size_t>(size), rows.size());
  Json answer;
  answer[list] = Json::array();
  for (std::size_t i = first; i < last; ++i) answer[list].push_back(std::move(rows[i]));
  if (last < rows.size()) answer["nextToken"] = std::to_string(last);
  return answer;
}

const std::map<std::string, Operation>& operations() {
  static const std::map<std::string, Operation> all = [] {
    std::map<std::string, Operation> made;
    for (const Operation& it : {Operation{"CreateComputeEnvironment", create_environment},
                                {"UpdateComputeEnvironment", update_environment},
                                {"DeleteComputeEnvironment", delete_environment},
                                {"DescribeComputeEnvironments", describe_environments},
                                {"CreateJobQueue", create_queue},
                                {"UpdateJobQueue", update_queue},
                                {"DeleteJobQueue", delete_queue},
                                {"DescribeJobQueues", describe_queues},
                                {"RegisterJobDefinition", register_definition},
                                {"DeregisterJobDefinition", deregister_definition},
                                {"DescribeJobDefinitions", describe_definitions},
                                {"SubmitJob", submit},
                                {"CancelJob", cancel},
                                {"TerminateJob", terminate},
                                {"DescribeJobs", describe_jobs},
                                {"ListJobs", list}}) {
      std::string path = std::string("/v1/") + it.name;
      std::transform(path.begin(), path.end(), path.begin(),
                     [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
      made.emplace(path, it);
    }
    return made;
  }();
  return all;
}

}  // namespace spotter::world::batch
