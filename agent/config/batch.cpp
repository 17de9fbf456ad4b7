#include "agent/config/batch.hpp"

#include <algorithm>
#include <cctype>

#include "agent/aws/formats/tags.hpp"
#include "agent/config/reader.hpp"
#include "agent/config/scalars.hpp"

namespace spotter::config {
namespace {

using NodeKind = Node::Kind;
using Texts = std::vector<std::string>;

const Scalar<int> positive{"a whole number, such as 4", parse_between<1, 1'000'000>};
const Scalar<int> not_negative{"a whole number, such as 1", parse_between<0, 1'000'000>};
const Scalar<int> megabytes{"memory in MiB, such as 16000", parse_between<4, 100'000'000>};
// https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html
const Scalar<int> tries{"a number of attempts", parse_between<1, 10>};

bool is_word(std::string_view text) {
  return !text.empty() && text.find_first_of(" \t\r\n") == text.npos;
}
const Scalar<std::string> word{.expected = "a name without blanks", .fits = is_word};

bool is_batch_name(std::string_view text) {
  const auto allowed = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_';
  };
  return !text.empty() && text.size() <= 128 && std::isalnum(static_cast<unsigned char>(text[0])) &&
         std::ranges::all_of(text, allowed);
}
const Scalar<std::string> batch_name{
    .expected = "a name for AWS Batch: 1 to 128 letters, digits, '-' and '_'",
    .fits = is_batch_name};

bool is_absolute(std::string_view text) { return text.starts_with('/'); }
const Scalar<std::string> absolute_path{.expected = "an absolute path", .fits = is_absolute};

Result<std::optional<std::chrono::seconds>> parse_timeout(std::string_view text) {
  const auto time = TRY(duration.parse(text));
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(time);
  if (seconds.count() >= 60) return seconds;
  return failure("'" + std::string(text) + "' is too short: AWS Batch wants 60s at least");
}
const Scalar<std::optional<std::chrono::seconds>> timeout{"a duration of 60s or more",
                                                          parse_timeout};

void read_command(Reader& reader, const Node& node, const std::string& path, Texts& to) {
  if (node.kind != NodeKind::List) {
    to = {"/bin/sh", "-c", ""};
    return reader.scalar(to[2], command)(node, path);
  }
  to.assign(node.items.size(), "");
  for (std::size_t i = 0; i < to.size(); ++i)
    reader.scalar(to[i], environment_value)(node.items[i], path);
  if (to.empty()) reader.problem(node, path, "the command is empty");
}

std::string wrong_in_batch(std::string_view name) {
  std::string wrong = wrong_variable_name(name);
  if (wrong.empty() && name.starts_with("AWS_BATCH"))
    wrong = "names that begin with AWS_BATCH are AWS Batch's own";
  return wrong;
}

Reader::Fields volume_fields(Reader& reader, wire::BatchVolume& volume, std::string& host) {
  return {{"efs", optional, reader.expanded(volume.file_system, word)},
          {"access_point", optional, reader.expanded(volume.access_point, word)},
          {"root", optional, reader.scalar(volume.folder, absolute_path)},
          {"host", optional, reader.scalar(host, absolute_path)},
          {"mount", required, reader.scalar(volume.mount, absolute_path)},
          {"read_only", optional, reader.scalar(volume.read_only, yes_or_no)}};
}

void read_volume(Reader& reader, const Node& node, const std::string& path,
                 std::vector<wire::BatchVolume>& to) {
  wire::BatchVolume volume;
  std::string host;
  reader.map(node, path, volume_fields(reader, volume, host));
  if (node.kind == NodeKind::Map && host.empty() == volume.file_system.empty())
    reader.problem(node, path, "expected one of efs and host");
  if (!host.empty() && !(volume.folder + volume.access_point).empty())
    reader.problem(node, path, "root and access_point are of efs");
  // "If an EFS access point is specified, this parameter must either be omitted or set to /"
  if (!volume.folder.empty() && !volume.access_point.empty())
    reader.problem(node, path, "an access point has a root of its own");
  if (!host.empty()) volume.folder = host;
  to.push_back(std::move(volume));
}

void read_volumes(Reader& reader, const Node& node, const std::string& path,
                  std::vector<wire::BatchVolume>& to) {
  if (node.kind != NodeKind::List)
    return reader.problem(node, path, "expected a list, such as [{efs: fs-0123, mount: /mnt/efs}]");
  for (const Node& item : node.items) read_volume(reader, item, path, to);
}

Reader::Fields batch_fields(Reader& reader, Batch& batch) {
  auto& [environment, queue, definition] = batch;
  return {{"image", required, reader.expanded(definition.image, word)},
          {"vcpus", required, reader.scalar(definition.vcpus, positive)},
          {"memory", required, reader.scalar(definition.memory, megabytes)},
          {"shared_memory", optional, reader.scalar(definition.shared_memory, megabytes)},
          {"gpus", optional, reader.scalar(definition.gpus, not_negative)},
          {"max_vcpus", required, reader.scalar(environment.max_vcpus, positive)},
          {"subnets", required, reader.texts(environment.subnets, word)},
          {"security_groups", optional, reader.texts(environment.security_groups, word)},
          {"instance_types", optional, reader.texts(environment.instance_types, word)},
          {"instance_role", optional, reader.expanded(environment.instance_role, word)},
          {"service_role", optional, reader.expanded(environment.service_role, word)},
          {"launch_template", optional, reader.expanded(environment.launch_template, word)},
          {"job_role", optional, reader.expanded(definition.job_role, word)},
          {"command", optional, reader.by(read_command, definition.command)},
          {"environment", optional,
           reader.table(definition.environment, environment_value, "a mapping of names to values",
                        wrong_in_batch)},
          {"volumes", optional, reader.by(read_volumes, definition.volumes)},
          {"attempts", optional, reader.scalar(definition.attempts, tries)},
          {"timeout", optional, reader.scalar(definition.timeout, timeout)},
          {"priority", optional, reader.scalar(queue.priority, not_negative)},
          {"queue", optional, reader.expanded(queue.name, batch_name)},
          {"compute_environment", optional, reader.expanded(environment.name, batch_name)}};
}

}  // namespace

void read_batch(Reader& reader, const Node& node, const std::string& path, Batch& batch) {
  batch.environment.instance_types = {"optimal"};
  batch.environment.instance_role = "ecsInstanceRole";
  batch.definition.command = {"spotter", "run", "--job", "/etc/spotter/job.yaml"};
  batch.definition.attempts = 10;
  reader.map(node, path, batch_fields(reader, batch));
  if (node.kind != NodeKind::Map) return;
  if (batch.definition.shared_memory == 0)
    batch.definition.shared_memory = batch.definition.memory / 2;
  const wire::BatchEnvironment& environment = batch.environment;
  if (environment.security_groups.empty() && environment.launch_template.empty())
    reader.problem(node, path,
                   "the key 'security_groups' is missing, and no launch_template has them");
  if (batch.definition.gpus > 0 && environment.instance_types == Texts{"optimal"})
    reader.problem(node, path,
                   "instance_types: none of `optimal` has a GPU; name some, such as [g5]");
  if (batch.definition.vcpus > environment.max_vcpus && environment.max_vcpus > 0)
    reader.problem(node, path, "vcpus: one set needs more than max_vcpus");
}

void name_after(const std::string& job, std::string storage, Batch& batch) {
  auto& [environment, queue, definition] = batch;
  if (environment.name.empty()) environment.name = "spotter-" + job;
  if (queue.name.empty()) queue.name = "spotter-" + job;
  definition.name = "spotter-" + job;
  queue.environment = environment.name;
  for (char& each : storage) {
    const auto byte = static_cast<unsigned char>(each);
    const bool allowed = byte >= 0x80 || std::isalnum(byte) != 0;
    if (!allowed && std::string_view(" +-=._:/@").find(each) == std::string_view::npos) each = '.';
  }
  environment.tags = {{tag::job, job}};
  if (!storage.empty()) environment.tags[tag::storage] = storage;
  queue.tags = definition.tags = environment.tags;
}

}  // namespace spotter::config
