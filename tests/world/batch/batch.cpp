#include "tests/world/batch/batch.hpp"

#include <algorithm>
#include <cctype>

#include "tests/world/arguments.hpp"
#include "tests/world/batch/access.hpp"
#include "tests/world/batch/jobs.hpp"
#include "tests/world/batch/members.hpp"
#include "tests/world/batch/operations.hpp"
#include "tests/world/batch/resources.hpp"
#include "tests/world/batch/scheduler.hpp"

namespace spotter::world::batch {
namespace {

constexpr std::string_view tags_path = "/v1/tags/";

// The delays that Batch::set can change. A range becomes one length.
constexpr std::pair<const char*, Range Settings::*> delays[] = {
    {"batch-resource-change", &Settings::resource_change},
    {"batch-entry", &Settings::entry},
    {"batch-registration", &Settings::registration},
    {"batch-start", &Settings::start}};
constexpr std::pair<const char*, Duration Settings::*> durations[] = {
    {"batch-stop-timeout", &Settings::stop_timeout},
    {"batch-idle-host", &Settings::idle_host},
    {"batch-capacity-retry", &Settings::capacity_retry}};

struct Dispatch {
  State& state;
  void operator()(const EnvironmentSettles& it) const { Resources(state).on(it); }
  void operator()(const QueueSettles& it) const { Resources(state).on(it); }
  void operator()(const JobEnters& it) const { Jobs(state).on(it); }
  void operator()(const ContainerStarts& it) const { Jobs(state).on(it); }
  void operator()(const TimeoutDue& it) const { Jobs(state).on(it); }
  void operator()(const KillDue& it) const { Jobs(state).on(it); }
  void operator()(const HostRegisters& it) const { Scheduler(state).on(it); }
  void operator()(const HostIdles& it) const { Scheduler(state).on(it); }
  void operator()(const LookAgain&) const { state.changed = true; }
};

Reply reply(const Json& body) {
  return {.body = body.dump(-1, ' ', false, Json::error_handler_t::replace),
          .content_type = "application/json"};
}

// The world's faults speak as EC2 does.
// https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html
ApiError translated(ApiError error) {
  if (error.code == "RequestLimitExceeded") {
    return {"TooManyRequestsException", "Too Many Requests", 429};
  }
  if (error.code == "InternalError") return {"ServerException", error.message, 500};
  if (error.code == "UnauthorizedOperation") return {"AccessDeniedException", error.message, 403};
  return error;
}

Answer tag_call(State& state, const Request& request, const std::string& arn) {
  Tags* const tags = Resources(state).tags(arn);
  if (!tags) return client_refusal("Resource " + arn + " does not exist");
  if (request.method == "GET") return Json{{"tags", *tags}};
  if (request.method == "DELETE") {
    for (const std::string& name : request.names) tags->erase(name);
    return Json::object();
  }
  const Json body = Json::parse(request.body, nullptr, false);
  Problem problem;
  Tags after = Reader(body, problem).tags(*tags);
  if (problem) return tl::unexpected(*problem);
  *tags = std::move(after);
  return Json::object();
}

std::string tag_action(const std::string& method) {
  if (method == "GET") return "ListTagsForResource";
  return method == "DELETE" ? "UntagResource" : "TagResource";
}

}  // namespace

Batch::Batch(World& world, Settings settings, std::uint64_t seed)
    : state_{.world = world, .settings = std::move(settings), .random = Random(seed)} {}

void Batch::enter(Time now) {
  while (!state_.agenda.empty() && state_.agenda.begin()->first <= now) {
    const auto due = state_.agenda.extract(state_.agenda.begin());
    state_.now = std::max(state_.now, due.key());
    std::visit(Dispatch{state_}, due.mapped());
  }
  state_.now = std::max(state_.now, now);
}

std::vector<Order> Batch::advance(Time now) {
  enter(now);
  Scheduler(state_).watch();
  enter(now);
  if (std::exchange(state_.changed, false)) Scheduler(state_).look();
  return std::exchange(state_.orders, {});
}

std::optional<Time> Batch::next() const {
  if (!state_.orders.empty() || state_.changed) return state_.now;
  if (state_.agenda.empty()) return std::nullopt;
  return state_.agenda.begin()->first;
}

void Batch::ended(const Run& run, const Ending& ending, Time now) {
  enter(now);
  Jobs(state_).ended(run, ending);
}

Reply Batch::refuse(const ApiError& error) {
  Reply result = reply({{"message", error.message}});
  result.status = error.http_status;
  result.headers["x-amzn-ErrorType"] = error.code;
  return result;
}

Reply Batch::answer(const Request& request, Time now) {
  enter(now);
  const bool about_tags = request.path.starts_with(tags_path);
  const auto found = operations().find(request.path);
  if (!about_tags && (found == operations().end() || request.method != "POST")) {
    return refuse({"UnknownOperationException", "There is no " + request.path, 404});
  }
  const std::string action = about_tags ? tag_action(request.method) : found->second.name;
  const Admission admission = state_.world.admit(action, now);
  const bool refused = admission.error && !admission.carry_out;
  Reply result = refused ? refuse(translated(*admission.error)) : carry_out(request);
  result.delay = admission.delay;
  result.drop = admission.drop;
  result.headers["Date"] = http_date(state_.world.wall(state_.now));
  result.headers["x-amzn-RequestId"] = state_.random.uuid();
  return result;
}

Reply Batch::carry_out(const Request& request) {
  const Json empty = Json::object();
  Answer answer;
  if (request.path.starts_with(tags_path)) {
    const std::string arn = request.path.substr(tags_path.size());
    const Json body = Json::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
    if (const auto unknown = refuse_members(tag_action(request.method), body))
      return refuse(*unknown);
    const auto refused = refuse_access(
        state_, {tag_action(request.method), request.caller, arn, body.is_object() ? body : empty});
    if (refused) return refuse(*refused);
    answer = tag_call(state_, request, arn);
  } else {
    const Json body = Json::parse(request.body, nullptr, false);
    if (!body.is_object()) return refuse(client_error("The request is no JSON object"));
    const Operation& operation = operations().at(request.path);
    if (const auto unknown = refuse_members(operation.name, body)) return refuse(*unknown);
    if (const auto refused = refuse_access(state_, {operation.name, request.caller, "", body}))
      return refuse(*refused);
    answer = operation.carry_out(state_, body, request.caller);
  }
  return answer ? reply(*answer) : refuse(answer.error());
}

std::vector<std::string> Batch::setting_names() {
  std::vector<std::string> lines;
  for (const auto& [name, range] : delays) lines.push_back(std::string(name) + " of=1s");
  for (const auto& [name, duration] : durations) lines.push_back(std::string(name) + " of=30s");
  lines.emplace_back(
      "batch-drain on=true|false (jobs get SIGTERM at an interruption's notice, whatever their "
      "hosts' launch template says)");
  return lines;
}

Expected<void> Batch::set(const std::string& name,
                          const std::map<std::string, std::string>& arguments) {
  Arguments given(arguments);
  const Duration of = given.duration("of", Duration{1000});
  if (!given.problem().empty()) return refusal("InvalidParameterValue", given.problem());
  for (const auto& [known, range] : delays) {
    if (name == known) state_.settings.*range = {of, of};
  }
  for (const auto& [known, duration] : durations) {
    if (name == known) state_.settings.*duration = of;
  }
  if (name == "batch-drain") state_.settings.drain_at_notice = given.on();
  const auto lines = setting_names();
  const bool known = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.substr(0, line.find(' ')) == name;
  });
  if (!known) return refusal("InvalidParameterValue", "There is no fault '" + name + "'.");
  return {};
}

Json Batch::describe() const {
  Json document = {{"environments", Json::array()},
                   {"queues", Json::array()},
                   {"hosts", Json::array()},
                   {"jobs", Json::array()}};
  for (const auto& [name, it] : state_.environments) {
    document["environments"].push_back({{"id", name}, {"state", batch::name(it.condition)}});
  }
  for (const auto& [name, it] : state_.queues) {
    document["queues"].push_back({{"id", name}, {"state", batch::name(it.condition)}});
  }
  for (const auto& [id, it] : state_.hosts) {
    Json runs = Json::array();
    for (const Run& run : it.runs) runs.push_back(run.job);
    document["hosts"].push_back(
        {{"id", id.str()}, {"environment", it.environment}, {"jobs", runs}});
  }
  for (const auto& [id, it] : state_.jobs) {
    document["jobs"].push_back(
        {{"id", id}, {"name", it.what->name}, {"state", batch::name(it.status)}});
  }
  return document;
}

std::string State::arn(const std::string& kind, const std::string& name) const {
  const auto& world_settings = world.cloud().settings;
  return "arn:aws:batch:" + world_settings.region.str() + ':' + world_settings.account + ':' +
         kind + '/' + name;
}

Capacity& Capacity::operator+=(const Capacity& other) {
  vcpus += other.vcpus;
  memory += other.memory;
  gpus += other.gpus;
  return *this;
}

Capacity& Capacity::operator-=(const Capacity& other) {
  vcpus -= other.vcpus;
  memory -= other.memory;
  gpus -= other.gpus;
  return *this;
}

constexpr std::string_view status_names[] = {"SUBMITTED", "PENDING",   "RUNNABLE", "STARTING",
                                             "RUNNING",   "SUCCEEDED", "FAILED"};

std::string_view name(Status status) { return status_names[static_cast<std::size_t>(status)]; }

std::optional<Status> status_of(std::string_view name) {
  for (std::size_t i = 0; i < statuses; ++i) {
    if (status_names[i] == name) return static_cast<Status>(i);
  }
  return std::nullopt;
}

std::string_view name(Condition condition) {
  constexpr std::string_view names[] = {"CREATING", "UPDATING", "DELETING", "VALID"};
  return names[static_cast<std::size_t>(condition)];
}

}  // namespace spotter::world::batch
