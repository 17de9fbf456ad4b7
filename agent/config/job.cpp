#include "agent/config/job.hpp"

#include <fnmatch.h>

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

namespace spotter::config {
namespace {

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
  if (wire::json_text(wire::Json(job.sagemaker->hyperparameters)).size() > longest_command)
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
