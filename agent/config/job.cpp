#include "agent/config/job.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <csignal>

#include "agent/aws/formats/s3.hpp"
#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/config/gang.hpp"
#include "agent/config/git_server.hpp"
#include "agent/config/prepare.hpp"
#include "agent/config/reader.hpp"
#include "agent/config/scalars.hpp"
#include "agent/config/storage.hpp"
#include "agent/config/sweep.hpp"

namespace spotter::config {
namespace {

// `channels:` of job.yaml: as short texts, as maps, or as SageMaker's InputDataConfig.

using Json = wire::Json;
using wire::Channel;

// Without the channel's name, which is in the path already.
std::string plain(const std::string& message, const std::string& name) {
  const std::string own = "channel " + name + ": ";
  return message.starts_with(own) ? message.substr(own.size()) : message;
}

std::optional<std::string> text_of(Reader& reader, const Node& node, const std::string& path) {
  std::optional<std::string> text;
  reader.expanded(text, environment_value)(node, path);
  return text;
}

Reader::Take source(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    const auto text = text_of(reader, node, path);
    const auto location = wire::parse_s3_url(text.value_or(""));
    good = good && location;
    if (location) channel.source = *location;
    if (text && !location) reader.problem(node, path, location.error().message);
  };
}

Reader::Take setting(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    const auto text = text_of(reader, node, path);
    const std::string name = path.substr(path.rfind('.') + 1);
    const auto set = text ? wire::set_setting(channel, name, *text) : failure("");
    good = good && set;
    if (text && !set) reader.problem(node, path, set.error().message);
  };
}

Reader::Take attributes(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    good = good && node.kind == Node::Kind::List;
    if (node.kind != Node::Kind::List)
      return reader.problem(node, path, "expected a list of names, found " + describe(node));
    for (const Node& each : node.items) {
      const auto name = text_of(reader, each, path);
      good = good && name;
      if (name) channel.attributes.push_back(*name);
    }
  };
}

// False: problems were reported.
bool read_map(Reader& reader, const Node& node, const std::string& path, Channel& channel) {
  bool good = true;
  Reader::Fields fields{{"source", required, source(reader, channel, good)},
                        {"attributes", optional, attributes(reader, channel, good)}};
  for (const auto* name : {"mode", "type", "compression", "record_wrapper", "shuffle_seed",
                           "distribution", "anonymous", "requester_pays", "content_type"})
    fields.push_back({name, optional, setting(reader, channel, good)});
  reader.map(node, path, fields);
  return good && !channel.source.bucket.empty();
}

void read_one(Reader& reader, const Node& key, const Node& value, const std::string& path,
              Channels& channels) {
  if (!wire::is_channel_name(key.text))
    return reader.problem(key, path, "a channel's name has letters, digits, `.`, `-` and `_`");
  Channel channel;
  channel.name = key.text;
  Result<Channel> read = failure("");
  if (value.kind == Node::Kind::Map) {
    if (!read_map(reader, value, path, channel)) return;
    read = wire::validated(std::move(channel));
  } else {
    const auto text = text_of(reader, value, path);
    if (!text) return;
    read = wire::parse_channel(key.text + "=" + *text);
  }
  if (!read) return reader.problem(value, path, plain(read.error().message, key.text));
  if (auto added = wire::add_channel(channels.all, std::move(*read)); !added)
    reader.problem(value, path, plain(added.error().message, key.text));
}

// {train: "s3://bucket/prefix,gzip"}, {train: {source: s3://bucket/prefix, mode: file, ...}}, a
// list as in CreateTrainingJob, or the path of a file with such a list.
Reader::Take channels(Reader& reader, Channels& channels) {
  const auto each = [&](const Node& key, const Node& value, const std::string& path) {
    read_one(reader, key, value, path, channels);
  };
  return [&, each](const Node& node, const std::string& path) {
    if (node.kind == Node::Kind::Text) {
      channels.document = text_of(reader, node, path).value_or("");
      if (channels.document.empty() || channels.document.starts_with("s3://"))
        reader.problem(node, path, "channels have names: {train: s3://bucket/prefix}");
    } else if (node.kind == Node::Kind::List) {
      // Numbers stay texts.
      const auto text = [](const Node& leaf) -> Json { return leaf.text; };
      auto read = wire::parse_input_data_config(wire::json_text(json_of<Json>(node, text)));
      if (!read) return reader.problem(node, path, read.error().message);
      channels.all = std::move(*read);
    } else {
      reader.pairs("channels, such as {train: s3://bucket/prefix}", each)(node, path);
    }
  };
}

// `claims:` of job.yaml: where machines that share work record who has which experiment.

const Scalar<wire::S3Location> prefix{"where in S3, such as s3://bucket/claims", parse_s3_prefix};

// Several writes to S3, each with retries, must fit into a lease.
const Scalar<Duration> lease{"a duration such as 60s", parse_lease<1>};

// {at: s3://bucket/prefix, lease: 60s}
void read_claims(Reader& reader, const Node& node, const std::string& path, Claims& claims) {
  reader.map(node, path,
             {{"at", required, reader.expanded(claims.at, prefix)},
              {"lease", optional, reader.scalar(claims.lease, lease)}});
}

// Appends the job's name to the prefix. Reports settings that make no sense with claims.
void finish_claims(Reader& reader, Job& job) {
  if (reader.given("sweep.stop") != nullptr && reader.given("claims") == nullptr)
    reader.problem("sweep.stop",
                   "needs `claims: {at: s3://bucket/prefix}`: what the experiments have reached is "
                   "compared there. In an array (Batch, Slurm, Kubernetes) each runs to its end");
  if (!job.claims) return;
  if (job.storage.in_bucket() && !job.sweep)
    reader.problem("claims",
                   "is not needed with storage.s3: the home's own head says who may write");
  job.claims->at.key += job.name.str() + "/";
  if (!job.storage.share && !job.sweep)
    reader.problem(
        "claims",
        "one job on storage.ebs needs none: a volume is attached to one instance at a time");
}

using Fields = Reader::Fields;

const Scalar<wire::S3Location> publish_prefix{"where in S3, such as s3://bucket/spotter",
                                              parse_s3_prefix};
const Scalar<wire::S3Location> fence_prefix{"where in S3, such as s3://bucket/fence",
                                            parse_s3_prefix};
const Scalar<wire::S3Location> checkpoints_prefix{"where in S3, such as s3://bucket/run-1",
                                                  parse_s3_prefix};

const Scalar<wire::S3Location> trainers_place{"where in S3, such as s3://bucket/data",
                                              parse_s3_prefix};

// An argument of a program: `NAME=COLUMN`.
bool is_column_name(std::string_view text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  return !text.empty() && text.size() <= 256 && std::ranges::none_of(text, is_control);
}

// Keys of mappings: what is wrong with one; empty: nothing.
std::string wrong_column(std::string_view key) {
  const bool ours =
      key == "step" || key == "epoch" || key == "loss" || key == "accuracy" || is_metric_name(key);
  return ours ? "" : "is no name for a metric: letters, digits and _.-/";
}
std::string wrong_hyperparameter(std::string_view key) {
  const bool good = !key.empty() && key.find('=') == key.npos;
  return good ? "" : "a hyperparameter's name is not empty and has no '='";
}

Fields code_fields(Reader& reader, Code& code) {
  return {{"folder", optional, reader.expanded(code.folder, code_folder_path)},
          {"repository", optional, reader.expanded(code.repository, repository)},
          {"revision", optional, reader.scalar(code.revision, commit_id)},
          {"token", optional, reader.scalar(code.token, secret_reference)}};
}

Fields trainer_fields(Reader& reader, Trainer& trainer) {
  return {{"command", required, reader.scalar(trainer.command, command)},
          {"user", optional, reader.scalar(trainer.user, user_name)},
          {"environment", optional, reader.expanded(trainer.environment, python_environment)},
          {"env", optional,
           reader.table(trainer.env, environment_value, "a mapping of names to values",
                        wrong_variable_name)},
          {"secrets", optional,
           reader.table(trainer.secrets, secret_reference, "a mapping of names to references",
                        wrong_variable_name)},
          {"stop_signal", optional, reader.scalar(trainer.stop_signal, stop_signal)},
          {"stop_grace", optional, reader.scalar(trainer.stop_grace, duration)},
          {"reads", optional, reader.texts(trainer.reads, trainers_place)},
          {"writes", optional, reader.texts(trainer.writes, trainers_place)},
          {"role", optional, reader.scalar(trainer.role, role)},
          {"trust", optional, reader.scalar(trainer.trusted, trust)},
          {"imds", optional, reader.scalar(trainer.imds_allowed, imds_access)},
          {"gpus", optional, reader.scalar(trainer.gpus, gpu_count)},
          {"memory_max", optional, reader.scalar(trainer.memory_max, memory_amount)},
          {"cpu_quota", optional, reader.scalar(trainer.cpu_quota, cpu_quota)},
          {"cpu_weight", optional, reader.scalar(trainer.cpu_weight, cpu_weight)},
          {"result", optional, reader.scalar(trainer.result, path_below_mount)}};
}

Fields prometheus_fields(Reader& reader, Prometheus& prometheus) {
  return {{"port", optional, reader.scalar(prometheus.port, port)},
          {"textfile", optional, reader.scalar(prometheus.folder, folder_path)}};
}

Fields notify_fields(Reader& reader, Notify& notify) {
  notify.on.push_back("deadline");  // who says nothing gets all
  return {{"webhook", optional, reader.scalar(notify.webhook, secret_reference)},
          {"topic", optional, reader.expanded(notify.topic, topic)},
          {"on", optional, reader.texts(notify.on, notified_event)}};
}

const Scalar<std::string> column_name{
    .expected = "a column's name of up to 256 characters, none of them a control",
    .fits = is_column_name};

Fields checkpoints_fields(Reader& reader, Checkpoints& checkpoints) {
  return {{"directory", optional, reader.scalar(checkpoints.directory, path_below_mount)},
          {"files", optional, reader.scalar(checkpoints.files, file_patterns)},
          {"folders", optional, reader.scalar(checkpoints.folders, folder_patterns)},
          {"set", optional, reader.scalar(checkpoints.set, set_patterns)},
          {"s3", optional, reader.expanded(checkpoints.s3, checkpoints_prefix)},
          {"keep_best", optional, objective(reader, checkpoints.keep_best, column_name)}};
}

Fields metrics_fields(Reader& reader, MetricsLog& log) {
  return {{"csv", optional, reader.scalar(log.csv, path_below_mount)},
          {"json_lines", optional, reader.scalar(log.json_lines, path_below_mount)},
          {"columns", optional,
           reader.table(log.columns, column_name,
                        "our names and the log's, such as {val_accuracy: top1}", wrong_column)}};
}

Fields sagemaker_fields(Reader& reader, SageMaker& sagemaker) {
  return {{"link", optional, reader.expanded(sagemaker.link, mount_point)},
          {"hyperparameters", optional,
           reader.table(sagemaker.hyperparameters, environment_value,
                        "hyperparameters, such as {epochs: 3}", wrong_hyperparameter)}};
}

Fields on_failure_fields(Reader& reader, OnFailure& on_failure) {
  return {{"attempts_without_progress", optional,
           reader.scalar(on_failure.attempts_without_progress, attempts)},
          {"starts_per_attempt", optional, reader.scalar(on_failure.starts_per_attempt, attempts)},
          {"blocked", optional, reader.scalar(on_failure.blocked, duration)},
          {"stall", optional, reader.scalar(on_failure.stall, stall_duration)},
          {"then", optional, reader.scalar(on_failure.then, give_up)},
          {"hold", optional, reader.scalar(on_failure.hold, duration)}};
}

// RFC 3339, of which the seconds may be left out.
Result<wire::WallTime> parse_moment(std::string_view text) {
  constexpr std::size_t minutes_end = std::string_view("2026-12-04T18:00").size();
  std::string whole(text);
  if (text.size() > minutes_end && text[minutes_end] != ':') whole.insert(minutes_end, ":00");
  if (const auto time = wire::parse_rfc3339(whole)) return *time;
  return failure(in_quotes(text) +
                 " is no time with its zone, such as 2026-12-04T18:00Z or 2026-12-04T18:00+01:00");
}
const Scalar<wire::WallTime> moment{"a time such as 2026-12-04T18:00Z", parse_moment};

const Scalar<Deadline::GivesWay> gives_way{.expected = "deadline or dollars",
                                           .choices = {{"deadline", Deadline::GivesWay::Deadline},
                                                       {"dollars", Deadline::GivesWay::Dollars}}};

Fields limits_fields(Reader& reader, Job& job) {
  return {{"hours", optional, reader.scalar(job.limits.hours, positive_number)},
          {"dollars", optional, reader.scalar(job.limits.dollars, positive_number)},
          {"gives_way", optional, reader.scalar(job.deadline.gives_way, gives_way)}};
}

Fields fleet_fields(Reader& reader, Fleet& fleet) {
  return {{"kind", required, reader.scalar(fleet.kind, fleet_kind)},
          {"id", required, reader.scalar(fleet.id, fleet_id)}};
}

Fields job_fields(Reader& reader, Job& job) {
  return {{"job", required, reader.scalar(job.name, job_name)},
          {"storage", required, reader.by(read_storage, job.storage)},
          {"code", optional, reader.object(job.code, code_fields)},
          {"setup", optional, reader.texts(job.setup, setup_command)},
          {"trainer", required, reader.object(job.trainer, trainer_fields)},
          {"checkpoints", optional, reader.object(job.checkpoints, checkpoints_fields)},
          {"metrics", optional, reader.object(job.metrics, metrics_fields)},
          {"channels", optional, channels(reader, job.channels)},
          {"prepare", optional, reader.by(read_prepare, job.prepare)},
          {"cache", optional, reader.scalar(job.cache_on_instance_store, cache_place)},
          {"sagemaker", optional, reader.object(job.sagemaker, sagemaker_fields)},
          {"sweep", optional, reader.by(read_sweep, job.sweep)},
          {"claims", optional, reader.by(read_claims, job.claims)},
          {"gang", optional, reader.by(read_gang, job.gang)},
          {"on_failure", optional, reader.object(job.on_failure, on_failure_fields)},
          {"limits", optional, reader.object(job, limits_fields)},
          {"finish_by", optional, reader.scalar(job.deadline.finish_by, moment)},
          {"within", optional, reader.scalar(job.deadline.within, duration)},
          {"prometheus", optional, reader.object(job.prometheus, prometheus_fields)},
          {"publish", optional, reader.expanded(job.publish, publish_prefix)},
          {"fence", optional, reader.expanded(job.fence, fence_prefix)},
          {"notify", optional, reader.object(job.notify, notify_fields)},
          {"launch", optional, reader.by(read_launch, job)},
          {"fleet", optional, reader.object(job.fleet, fleet_fields)}};
}

void check_sweep(Reader& reader, const Job& job) {
  if (!job.sweep || job.sweep->sets.empty() || job.trainer.command.empty()) return;
  const auto fits = sweep::check(job.sweep->sets, job.trainer.command);
  if (!fits) reader.problem("sweep", fits.error().message);
}

// execve(2) takes arguments and variables of up to 128 KiB each. With channels a command is quoted
// once more, and PATH is put before it.
constexpr std::size_t longest_string = 128U << 10;
constexpr std::size_t longest_command = 96U << 10;

void check_lengths(Reader& reader, const Job& job) {
  if (wire::shell_quoted(job.trainer.command).size() > longest_command)
    reader.problem(
        "trainer.command",
        "has more than 96 KiB, which no program can be started with: put it into a file");
  for (const auto& [name, value] : job.trainer.env) {
    if (name.size() + value.size() + 2 > longest_string)
      reader.problem("trainer.env." + name, "has more than 128 KiB: put it into a file");
  }
  if (!job.sagemaker) return;
  if (wire::json_text(Json(job.sagemaker->hyperparameters)).size() > longest_command)
    reader.problem("sagemaker.hyperparameters", "have more than 96 KiB: put them into a file");
}

// The fetching agent refuses a token that it cannot give (host/checkout.hpp), but by then instances
// cost money.
void check_code(Reader& reader, const Job& job) {
  const Node* code = reader.given("code");
  if (code == nullptr || code->kind != Node::Kind::Map) return;
  const bool folder = reader.given("code.folder") != nullptr;
  const bool repository = reader.given("code.repository") != nullptr;
  for (const std::string other : {"code.repository", "code.revision", "code.token"})
    if (folder && reader.given(other) != nullptr)
      reader.problem(other,
                     "'folder' is given, too: is the code in a folder here, or in a repository?");
  if (!folder && !repository)
    return reader.problem("code",
                          "the key 'repository' is missing; for code in a folder here, 'folder'");
  if (!folder && reader.given("code.revision") == nullptr)
    return reader.problem("code", "the key 'revision' is missing");
  if (!repository || !job.code || !job.code->token) return;
  const auto server = wire::token_server(job.code->repository);
  if (!server) reader.problem("code.repository", server.error().message);
}

void check_checkpoints(Reader& reader, const Job& job) {
  const bool folders = reader.given("checkpoints.folders") != nullptr;
  if (reader.given("checkpoints.s3") != nullptr && !folders)
    reader.problem("checkpoints.s3",
                   "is for 'folders', which is not given; libspotter's own checkpoints are copied "
                   "where SPOTTER_CHECKPOINTS_S3 in trainer.env says");
  if (folders && !job.checkpoints.files.empty() && !job.checkpoints.folders.empty())
    reader.problem("checkpoints.folders",
                   "'files' is given, too: a checkpoint is one file or one folder");
}

// The most names that a datagram of metrics has room for, beside step, epoch, loss and accuracy.
constexpr std::size_t most_columns = most_metrics + 4;

void check_metrics(Reader& reader, const Job& job) {
  const Node* node = reader.given("metrics");
  if (node == nullptr || node->kind != Node::Kind::Map || !job.metrics) return;
  const Node* csv = child(*node, "csv");
  const Node* lines = child(*node, "json_lines");
  if (csv == nullptr && lines == nullptr)
    return reader.problem("metrics",
                          "names no file: give 'csv' or 'json_lines', such as csv: training.csv");
  if (csv != nullptr && lines != nullptr)
    return reader.problem("metrics.json_lines", "'csv' is given, too: which is it?");
  std::string file = job.metrics->file();
  while (file.starts_with("./")) file.erase(0, 2);
  if (::fnmatch(file.c_str(), "metrics.jsonl", FNM_PATHNAME) == 0)
    reader.problem(csv == nullptr ? *lines : *csv, "metrics",
                   "metrics.jsonl is Spotter's own, where the learning curve is kept: let the "
                   "trainer write under another name");
  if (job.metrics->columns.size() > most_columns)
    reader.problem("metrics.columns", "has more than " + std::to_string(most_columns) + " names");
}

// The volume carries the place in a tag, whose value has 256 characters at most.
void check_fence(Reader& reader, const Job& job) {
  const auto place = job.fenced_at();
  if (!place) return;
  constexpr std::size_t most = 256;
  if (job.storage.share)
    reader.problem("fence", "is for a volume of its own (storage.ebs): a share has `claims:`");
  if (wire::to_url(*place).size() > most)
    reader.problem("fence", "is too long for a tag of the volume: take a shorter prefix");
}

// The volume's root is root's; the trainer has folders in it (`spotter run` has a folder).
void check_result(Reader& reader, const Job& job) {
  const bool given = reader.given("trainer.result") != nullptr;
  if (!given || job.storage.share || job.sweep || reader.environment().foreground) return;
  const std::string path = std::filesystem::path(job.trainer.result).lexically_normal().string();
  const std::string first = path.substr(0, path.find('/'));
  if (first == ".spotter" || first == "lost+found")
    return reader.problem("trainer.result",
                          "lies in " + first + ", which is not the trainer's: name another folder");
  const bool is_folder = path == "result" || path == "log" || path == job.checkpoints.directory;
  if (path.empty() || path.find('/') != path.npos || is_folder) return;
  reader.problem("trainer.result",
                 "lies in the volume's root, where only root may write: name a folder, such as "
                 "result/" +
                     path);
}

// Checks that involve two keys, or a key and the machine.
void check_together(Reader& reader, Job& job, const Environment& environment) {
  check_sweep(reader, job);
  finish_claims(reader, job);
  finish_gang(reader, job);
  check_fence(reader, job);
  check_code(reader, job);
  check_checkpoints(reader, job);
  check_metrics(reader, job);
  check_launch(reader, job);
  check_deadline(reader, job);
  check_data(reader, job);
  check_prepare(reader, job);
  // Root makes the link: not where a trainer may have put links of its own.
  if (reader.given("sagemaker.link") != nullptr && job.sagemaker &&
      is_at_or_below(job.sagemaker->link, job.storage.mount()))
    reader.problem("sagemaker.link",
                   "lies on the storage (" + job.storage.mount() + "): take a path outside of it");
  check_lengths(reader, job);
  check_result(reader, job);
  if (const Node* secrets = reader.given("trainer.secrets")) {
    for (const Node& key : secrets->keys)
      if (job.trainer.env.contains(key.text))
        reader.problem(key, "trainer.secrets." + key.text, "is in trainer.env, too: which is it?");
  }
  const Node* user = reader.given("trainer.user");
  if (job.trainer.user.empty() && user == nullptr)
    job.trainer.user =
        ((environment.root || job.launch) && !environment.foreground) || environment.user.empty()
            ? own_user
            : environment.user;
  const bool foreign = !environment.user.empty() && job.trainer.user != environment.user;
  // With `launch:` it is instances that have the user, and root there that runs the agent.
  if (user != nullptr && !job.trainer.user.empty() && !environment.root && foreign && !job.launch)
    reader.problem("trainer.user", "only root can run the trainer as '" + job.trainer.user +
                                       "'; we are '" + environment.user + "'");
}

std::string whole_name(const Storage& storage) {
  if (!storage.share && storage.ebs.tag.key.empty()) return {};
  if (!storage.share) return storage.ebs.tag.key + "=" + storage.ebs.tag.value;
  const Share& share = *storage.share;
  const std::string kind(to_text(share.kind));
  if (share.kind == Share::Kind::Folder) return kind + ":" + share.mount;
  if (share.kind == Share::Kind::S3) return kind + ":" + wire::to_url(storage.bucket);
  const std::string inside = share.access_point.empty() ? "" : "#" + share.access_point;
  return kind + ":" + share.server + share.path + inside;
}

}  // namespace

std::string_view to_text(FileSystem filesystem) {
  return filesystem == FileSystem::Xfs ? "xfs" : "ext4";
}

Result<Job, std::vector<Problem>> parse_job(std::string_view text, const Environment& environment) {
  const auto root = parse_yaml(text);
  if (!root) return in_file_order(root.error());
  if (root->kind == Node::Kind::Null)
    return tl::unexpected(std::vector<Problem>{{0, 0, "the file is empty"}});
  Job job;
  job.trainer.stop_signal = SIGTERM;
  std::vector<Problem> problems;
  Reader reader(environment, problems);
  reader.map(*root, "", job_fields(reader, job));
  check_together(reader, job, environment);
  if (job.sweep && job.sweep->batch)
    name_after(job.name.str(), storage_name(job), *job.sweep->batch);
  if (problems.empty()) return job;
  return in_file_order(std::move(problems));
}

std::string storage_name(const Job& job) {
  constexpr std::size_t longest = 256;
  std::string name = whole_name(job.storage);
  if (name.size() <= longest) return name;
  std::size_t end = longest;
  // Ends between two characters: EC2 refuses invalid UTF-8.
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80U) --end;
  return name.substr(0, end);
}

}  // namespace spotter::config
