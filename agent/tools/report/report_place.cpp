#include "agent/tools/report/report_place.hpp"

#include <filesystem>

#include "agent/job/scalars.hpp"

namespace spotter::command {
namespace {

constexpr const char* usual_job = "job.yaml";
constexpr const char* job_of_the_service = "/etc/spotter/job.yaml";

}  // namespace

std::string job_file(const JobToShow& options) {
  if (!options.job.empty()) return options.job;
  std::error_code error;
  for (const char* file : {usual_job, job_of_the_service})
    if (std::filesystem::exists(file, error)) return file;
  return "";
}

Result<config::Job> read_description(const std::string& file) {
  auto environment = config::Environment::of_process();
  environment.root = true;
  environment.user = "root";
  auto job = config::load_job(file, environment);
  if (job) return std::move(*job);
  std::string problems = config::describe(job.error(), file);
  while (problems.ends_with('\n')) problems.pop_back();
  return failure(std::move(problems));
}

bool is_a_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && !std::filesystem::is_directory(path, error);
}

// A job given by name is read from where it is published.
Result<ReportPlace> place_of(const JobToShow& options) {
  ReportPlace place{{}, options.from};
  const std::string file = job_file(options);
  std::string name = options.job;
  if (!file.empty() && is_a_file(file)) {
    auto job = read_description(file);
    // With --from no file is needed.
    if (!job && (options.from.empty() || !options.job.empty())) return tl::unexpected(job.error());
    if (job) name = job->name.str();
    if (job) place.job = std::move(*job);
  } else if (!options.job.empty() && options.publish.empty()) {
    return failure("--job " + options.job +
                   ": there is no such file; of a job by its name, --publish s3://bucket/prefix "
                   "says where its agents write");
  }
  if (!options.publish.empty()) {
    const auto prefix = config::parse_s3_prefix(options.publish);
    if (!prefix) return failure("--publish: " + prefix.error().message);
    const auto good = config::job_name.parse(name);
    if (!good) return failure("--job " + name + ": " + good.error().message);
    place.from = wire::to_url({prefix->bucket, prefix->key + name + "/"});
  }
  if (!place.job && place.from.empty())
    return failure(
        "there is neither job.yaml here nor /etc/spotter/job.yaml: name the job's description "
        "with --job, or where its history is with --from");
  return place;
}

}  // namespace spotter::command
