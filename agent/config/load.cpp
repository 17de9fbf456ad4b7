// Reads the job's file and those that it names, for this machine's environment and user.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "agent/config/job.hpp"
#include "agent/config/secrets.hpp"
#include "agent/config/sweep.hpp"
#include "agent/config/values.hpp"
#include "agent/io/files.hpp"

namespace spotter::config {

Environment Environment::of_process() {
  Environment here;
  here.variables = variables_of_process();
  here.root = geteuid() == 0;
  if (const passwd* user = getpwuid(geteuid())) here.user = user->pw_name;
  return here;
}

Environment Environment::of_root() {
  Environment there = of_process();
  there.root = true;
  there.user = "root";
  return there;
}

namespace {

tl::unexpected<std::vector<Problem>> problem(const std::string& message) {
  return tl::unexpected(std::vector<Problem>{{0, 0, message}});
}

// Reads the file that `sweep.parameters` names; a list in a bucket is fetched later.
Result<void, std::vector<Problem>> read_list(const std::filesystem::path& folder, Job& job) {
  auto& sweep = *job.sweep;
  if (sweep.source.empty() || sweep.source.starts_with("s3://")) return {};
  const std::string list = folder / sweep.source;
  const auto text = io::read_text(list, sets_size_limit);
  if (!text) return problem("sweep.parameters: " + list + ": " + text.error().message);
  auto sets = read_sets(*text, list, job.trainer);
  if (!sets) return problem(sets.error().message);
  sweep.source.clear();
  sweep.sets = std::move(*sets);
  return {};
}

// A folder is the launching machine's; on an instance stands beside job.yaml where it was sent to.
Result<void, std::vector<Problem>> find_code(const std::filesystem::path& folder, Code& code) {
  const auto sent = io::read_text(folder / code_sent, job_size_limit);
  if (!sent) {
    std::error_code error;
    code.folder = std::filesystem::absolute(folder / code.folder, error).lexically_normal();
    return {};
  }
  const auto end = std::min(sent->find('\n'), sent->size());
  code.repository = sent->substr(0, end);
  code.revision = sent->substr(end == sent->size() ? end : end + 1);
  while (code.revision.ends_with('\n')) code.revision.pop_back();
  if (!commit_id.parse(code.revision) || !wire::parse_s3_url(code.repository))
    return problem("code.folder: " + (folder / code_sent).string() + " is damaged");
  return {};
}

}  // namespace

Result<Job, std::vector<Problem>> load_job(const std::string& path,
                                           const Environment& environment) {
  const auto file = io::read_text(path, job_size_limit);
  if (!file) return problem("cannot read the job: " + file.error().message);
  auto job = parse_job(*file, environment);
  const auto folder = std::filesystem::path(path).parent_path();
  if (job && job->code && !job->code->folder.empty()) TRY(find_code(folder, *job->code));
  if (job && job->sweep) TRY(read_list(folder, *job));
  if (!job || job->channels.document.empty()) return job;
  const std::string document = folder / job->channels.document;
  const auto text = io::read_text(document, job_size_limit);
  if (!text) return problem("channels: " + document + ": " + text.error().message);
  auto channels = wire::parse_input_data_config(*text);
  if (!channels) return problem("channels: " + document + ": " + channels.error().message);
  job->channels.all = std::move(*channels);
  return job;
}

Result<Job> read_job(const std::string& path, const Environment& environment) {
  auto job = load_job(path, environment);
  if (job) return std::move(*job);
  std::string problems = describe(job.error(), path);
  while (problems.ends_with('\n')) problems.pop_back();
  return failure(std::move(problems));
}

std::string describe(const std::vector<Problem>& problems, std::string_view path) {
  std::string text;
  for (const auto& problem : problems) {
    text += path;
    if (problem.line > 0)
      text += ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column);
    text += ": " + problem.message + "\n";
  }
  return text;
}

}  // namespace spotter::config
