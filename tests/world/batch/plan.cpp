#include "tests/world/batch/plan.hpp"

#include <charconv>
#include <limits>

#include "tests/world/batch/retry.hpp"

namespace spotter::world::batch {
namespace {

constexpr int any_number = std::numeric_limits<int>::max();
constexpr int least_timeout = 60;  // seconds
constexpr int least_memory = 4;    // MiB
constexpr int largest_array = 10'000;
constexpr std::size_t most_dependencies = 20;

using Environment = std::vector<std::pair<std::string, std::string>>;

Environment read_environment(const Reader& container) {
  Environment result;
  for (const Reader& it : container.objects("environment")) {
    const std::string name = it.required("name");
    if (name.starts_with("AWS_BATCH")) {
      it.refuse("Environment variables cannot start with AWS_BATCH: " + name);
    }
    result.emplace_back(name, it.text("value"));
  }
  return result;
}

int positive(const Reader& reader, const std::string& type, const std::string& text, int least) {
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || number < least) {
    reader.refuse(type + " must be a whole number of at least " + std::to_string(least) + ": '" +
                  text + "'");
  }
  return number;
}

// resourceRequirements count more than the older vcpus and memory.
void read_needs(const Reader& container, Capacity& needs) {
  needs.vcpus = container.integer("vcpus", 1, any_number).value_or(needs.vcpus);
  needs.memory = container.integer("memory", least_memory, any_number).value_or(needs.memory);
  for (const Reader& it : container.objects("resourceRequirements")) {
    const std::string type = it.one_of("type", {"GPU", "MEMORY", "VCPU"});
    const std::string value = it.required("value");
    if (type == "VCPU") needs.vcpus = positive(it, type, value, 1);
    if (type == "MEMORY") needs.memory = positive(it, type, value, least_memory);
    if (type == "GPU") needs.gpus = positive(it, type, value, 1);
    if (type.empty()) it.refuse("resourceRequirements type must not be null");
  }
}

std::optional<Duration> read_timeout(const Json& document, Problem& problem) {
  if (document.is_null()) return std::nullopt;
  const auto seconds =
      Reader(document, problem).integer("attemptDurationSeconds", least_timeout, any_number);
  if (!seconds) return std::nullopt;
  return std::chrono::seconds{*seconds};
}

// "Ref::name" as a whole argument.
// https://docs.aws.amazon.com/batch/latest/userguide/job_definition_parameters.html#parameters
void replace_references(std::vector<std::string>& command, const Tags& parameters) {
  for (std::string& word : command) {
    if (!word.starts_with("Ref::")) continue;
    if (const auto it = parameters.find(word.substr(5)); it != parameters.end()) word = it->second;
  }
}

Json environment_json(const Environment& environment) {
  Json list = Json::array();
  for (const auto& [name, value] : environment) list.push_back({{"name", name}, {"value", value}});
  return list;
}

// DescribeJobs always shows resourceRequirements, as AWS itself does.
Json requirements_json(const Capacity& needs) {
  Json list = {{{"type", "VCPU"}, {"value", std::to_string(needs.vcpus)}},
               {{"type", "MEMORY"}, {"value", std::to_string(needs.memory)}}};
  if (needs.gpus > 0) list.push_back({{"type", "GPU"}, {"value", std::to_string(needs.gpus)}});
  return list;
}

void merge(Environment& into, const Environment& from) {
  for (const auto& [name, value] : from) {
    std::erase_if(into, [&, &same = name](const auto& it) { return it.first == same; });
    into.emplace_back(name, value);
  }
}

// The container as overridden; fills in what runs.
void plan_container(Submission& it, const Reader& definition, const Reader& overrides) {
  it.command = definition.texts("command");
  if (overrides.has("command")) it.command = overrides.texts("command");
  it.environment = read_environment(definition);
  merge(it.environment, read_environment(overrides));
  read_needs(definition, it.needs);
  read_needs(overrides, it.needs);
}

void plan_array(Submission& it, const Reader& request) {
  if (request.has("arrayProperties")) {
    const Reader array(request.get("arrayProperties"), request.problem());
    if (array.has("size")) it.size = array.integer("size", 2, largest_array).value_or(0);
  }
  it.depends_on = request.has("dependsOn") ? request.get("dependsOn") : Json::array();
  const auto dependencies = request.objects("dependsOn");
  if (dependencies.size() > most_dependencies) {
    request.refuse("A job can depend upon a maximum of 20 jobs");
  }
  for (const Reader& dependency : dependencies) {
    const std::string type = dependency.one_of("type", {"N_TO_N", "SEQUENTIAL"});
    if (!type.empty() && it.size == 0) {
      dependency.refuse(type + " dependencies are for array jobs only");
    }
    if (type != "SEQUENTIAL") dependency.required("jobId");
    if (type == "SEQUENTIAL" && dependency.has("jobId")) {
      dependency.refuse("a SEQUENTIAL dependency names no jobId");
    }
  }
}

}  // namespace

void check_definition(const Reader& request) {
  Problem& problem = request.problem();
  if (!request.has("containerProperties")) return request.refuse("containerProperties is missing");
  const Reader container(request.get("containerProperties"), problem);
  container.required("image");
  container.texts("command");
  read_environment(container);
  request.map("parameters");
  Capacity needs;
  read_needs(container, needs);
  if (needs.vcpus == 0) container.refuse("Container properties vcpus must be >= 1");
  if (needs.memory == 0) container.refuse("Container properties memory must be >= 4");
  read_timeout(request.get("timeout"), problem);
  if (const auto retry = parse_retry(request.get("retryStrategy")); !retry && !problem) {
    problem = retry.error();
  }
}

Expected<Submission> plan(const JobDefinition& definition, const JobQueue& queue,
                          const Json& request) {
  Problem problem;
  const Reader reader(request, problem);
  const Reader base(definition.document, problem);
  static const Json nothing = Json::object();
  const Json& overrides =
      reader.has("containerOverrides") ? reader.get("containerOverrides") : nothing;
  Submission it{
      .name = reader.identifier("jobName"), .queue = queue.name, .definition = definition.arn};
  plan_container(it, Reader(base.get("containerProperties"), problem), Reader(overrides, problem));
  Tags parameters = reader.map("parameters");
  parameters.merge(base.map("parameters"));
  replace_references(it.command, parameters);
  it.parameters = parameters;
  const char* const retry_name = "retryStrategy";
  it.retry_document = reader.has(retry_name) ? reader.get(retry_name) : base.get(retry_name);
  const auto retry = parse_retry(it.retry_document);
  if (!retry) return tl::unexpected(retry.error());
  it.retry = *retry;
  it.timeout =
      read_timeout(reader.has("timeout") ? reader.get("timeout") : base.get("timeout"), problem);
  plan_array(it, reader);
  it.tags = reader.tags();
  if (base.boolean("propagateTags") || reader.boolean("propagateTags")) {
    it.tags.insert(definition.tags.begin(), definition.tags.end());
  }
  it.container = base.get("containerProperties");
  it.container["command"] = it.command;
  it.container["environment"] = environment_json(it.environment);
  it.container["resourceRequirements"] = requirements_json(it.needs);
  it.container.erase("vcpus");
  it.container.erase("memory");
  if (problem) return tl::unexpected(*problem);
  return it;
}

}  // namespace spotter::world::batch
