#include "agent/config/run.hpp"

#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "agent/base/text.hpp"
#include "agent/config/gang.hpp"
#include "agent/config/values.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;
using Problems = std::vector<config::Problem>;

tl::unexpected<Problems> refused(const std::string& message) {
  return tl::unexpected(Problems{{0, 0, message}});
}

// One line for the user's shell.
std::string line_of(const std::vector<std::string>& words, auto quoted) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

Result<std::vector<std::string>> filled(std::vector<std::string> words, const config::Job& job) {
  if (!job.experiment) return words;
  for (std::string& word : words) {
    word = TRY(sweep::fill_word(word, job.experiment->set));
  }
  return words;
}

// Parsed like a job.yaml, so that its checks and defaults are the same.
Result<config::Job, std::vector<config::Problem>> storage_in(
    const std::string& url, const config::Environment& environment) {
  auto job = config::parse_job(
      "job: run\nstorage: {s3: " + nlohmann::json(url).dump() + "}\ntrainer: {command: x}\n",
      environment);
  if (!job) return refused("--storage: " + job.error().front().message);
  return job;
}

Result<config::Job, std::vector<config::Problem>> described(
    const RunRequest& request, const config::Environment& environment) {
  if (!request.job_file.empty()) return config::load_job(request.job_file, environment);
  if (request.command.empty()) return refused("give a command after --, or --job FILE");
  if (request.storage.empty())
    return refused("give --storage FOLDER or s3://bucket/prefix, or --job FILE");
  // The defaults of job.yaml; a failing command is not tried again.
  return config::parse_job(
      "job: run\nstorage: {folder: {path: /}}\ntrainer: {command: x}\n"
      "on_failure: {attempts_without_progress: 1, then: hold}\n",
      environment);
}

fs::path folder_of_runs() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && *runtime != 0 ? runtime : "/tmp";
}

std::string name_of_runs() { return "spotter-" + std::to_string(::geteuid()) + "-"; }

// Those of this user that are there now, the one with the newest status first. Each is removed when
// its run has released the storage.
std::vector<std::string> run_directories() {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(folder_of_runs(), error), end; !error && it != end;
       it.increment(error)) {
    struct stat status {};
    // Anybody may make a folder of such a name in /tmp.
    if (!it->path().filename().string().starts_with(name_of_runs()) ||
        ::lstat(it->path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != ::geteuid())
      continue;
    std::error_code none;
    const auto written = fs::last_write_time(it->path() / "status.json", none);
    if (!none) found.emplace_back(written, it->path());
  }
  std::ranges::sort(found, std::greater());
  std::vector<std::string> folders;
  folders.reserve(found.size());
  for (auto& [written, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

}  // namespace

Result<config::Job, std::vector<config::Problem>> job_of(const RunRequest& request,
                                                         config::Environment environment,
                                                         const FetchSets& fetch) {
  environment.foreground = true;
  auto job = TRY(with_experiment(described(request, environment), environment, fetch));
  if (!request.command.empty()) {
    auto words = filled(request.command, job);
    if (!words) return refused(words.error().message);
    job.trainer.command = "exec " + line_of(*words, wire::shell_quoted);
    if (request.job_file.empty()) job.trainer.words = line_of(*words, wire::shell_word);
    job.trainer.new_words = request.new_command;
  }
  if (!request.member.empty() && !job.gang)
    return refused("--gang is for a job with `gang:`, which says how many machines it has");
  if (job.gang) config::join_gang(job, request.member.empty() ? host_name() : request.member);
  job.trainer.inherits = true;
  // The trainer starts in the current folder, unless its code is fetched from elsewhere.
  if (job.code && job.code->repository.empty()) job.code.reset();
  std::error_code no_folder;
  const fs::path here = fs::current_path(no_folder);
  if (!job.code && !no_folder) {
    job.trainer.command =
        "cd " + wire::shell_quoted(here.string()) + " || exit; " + job.trainer.command;
    auto& [kind, name] = job.trainer.environment;
    const bool is_path =
        kind == config::PythonEnvironment::Kind::Venv || name.find('/') != name.npos;
    if (is_path && fs::exists(here / name, no_folder)) name = (here / name).string();
  }
  if (request.storage.starts_with("s3://")) {
    const auto storage = TRY(storage_in(request.storage, environment));
    job.storage.share = storage.storage.share;
    job.storage.bucket = storage.storage.bucket;
  } else if (request.storage.starts_with("s3:")) {
    return refused("--storage: " + request.storage + ": s3://bucket/prefix has two slashes");
  } else if (!request.storage.empty()) {
    std::error_code error;
    const fs::path folder = fs::absolute(request.storage, error).lexically_normal();
    auto path = config::folder_path.parse(folder.string());
    if (!path) return refused("--storage: " + path.error().message);
    // Made if only its own name is missing: more would hide a share that is not mounted.
    const bool is_there = fs::exists(folder, error) || fs::create_directory(folder, error);
    if (!is_there || !fs::is_directory(folder, error))
      return refused("--storage: " + folder.string() +
                     " is no folder: make it, or mount its share");
    job.storage.share.emplace().mount = *path;
  }
  if (!request.name.empty()) {
    const auto name = config::job_name.parse(request.name);
    if (!name) return refused("--name: " + name.error().message);
    job.name = *name;
  }
  if (!job.storage.share) {
    return refused(
        "storage.ebs is for `spotter agent`, on an instance that can attach a volume: give "
        "--storage FOLDER or --storage s3://bucket/prefix");
  }
  return job;
}

std::string run_directory_of(const config::Job& job) {
  return folder_of_runs() /
         (name_of_runs() + printed("%016zx", std::hash<std::string>()(job.home())));
}

std::string own_program() {
  std::error_code error;
#ifdef __APPLE__
  std::array<char, 4096> name{};
  auto size = static_cast<std::uint32_t>(name.size());
  if (_NSGetExecutablePath(name.data(), &size) != 0) return "/usr/bin/spotter";
  const auto path = std::filesystem::canonical(name.data(), error);
#else
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
#endif
  return error ? "/usr/bin/spotter" : path.string();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string run_directory_of(const act::Environment& environment) {
  const std::string set = environment.get("SPOTTER_RUN");
  return set.empty() ? "/run/spotter" : set;
}

std::string run_directory_to_show(const act::Environment& environment) {
  std::string usual = run_directory_of(environment);
  std::error_code error;
  if (!environment.get("SPOTTER_RUN").empty() ||
      std::filesystem::exists(usual + "/status.json", error))
    return usual;
  const auto runs = run_directories();
  return runs.empty() ? usual : runs.front();
}

}  // namespace spotter::command
