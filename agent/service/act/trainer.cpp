#include "agent/service/act/trainer.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/base/clock_text.hpp"
#include "agent/base/text.hpp"
#include "agent/config/gang.hpp"
#include "agent/config/secrets.hpp"
#include "agent/io/files.hpp"
#include "agent/io/process.hpp"
#include "agent/service/act/local.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/supervisor.hpp"
#include "agent/units/settings.hpp"
#include "agent/wire/metric_log.hpp"

namespace spotter::act {
namespace {

using decide::EffectFailed;
using decide::Failure;

EffectFailed unstartable(const std::string& why) {
  return {Failure::TrainerUnstartable, false, decide::Detail(io::last_lines(why, longest_detail))};
}

// The trainer reaches AWS as the agent does, but not with the agent's credentials: its channels and
// copies in S3 are fetched and sent by its user.
constexpr const char* kPassedOn[] = {"AWS_CA_BUNDLE",
                                     "CURL_CA_BUNDLE",
                                     "SSL_CERT_FILE",
                                     "AWS_USE_FIPS_ENDPOINT",
                                     "AWS_USE_DUALSTACK_ENDPOINT",
                                     "AWS_REGION",
                                     "AWS_DEFAULT_REGION",
                                     "AWS_ENDPOINT_URL",
                                     "AWS_ENDPOINT_URL_S3",
                                     "AWS_ENDPOINT_URL_EC2",
                                     "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                     "AWS_BATCH_JOB_ARRAY_INDEX",
                                     "AWS_BATCH_JOB_ARRAY_SIZE",
                                     "SLURM_ARRAY_TASK_ID",
                                     "SLURM_ARRAY_TASK_MIN",
                                     "SLURM_ARRAY_TASK_STEP",
                                     "SLURM_ARRAY_TASK_COUNT"};

// So does a proxy, unless its URL has a password, which is the agent's.
constexpr const char* kProxies[] = {"HTTPS_PROXY", "https_proxy", "http_proxy", "ALL_PROXY",
                                    "all_proxy",   "NO_PROXY",    "no_proxy"};

constexpr const char* kEvery = "SPOTTER_CHECKPOINT_EVERY";

// "312": whole seconds, at least one, for a shell's arithmetic.
std::string in_seconds(Duration duration) {
  return std::to_string(
      std::max<std::int64_t>(1, std::chrono::round<std::chrono::seconds>(duration).count()));
}

// Empty: this machine has no disk for it.
std::string usable_cache(const config::Job& job) {
  std::error_code error;
  std::string folder = cache_folder(job);
  return !folder.empty() && fs::is_directory(folder, error) ? folder : "";
}

// With channels, `spotter pipe` stands between the login shell and the trainer: it holds the FIFOs,
// passes signals and the exit status on, and ends the trainer when the data cannot be fetched. Its
// state is on the volume. The channels are in a file, as the line is one argument of the shell, and
// execve(2) takes at most 128 KiB.
std::string command_line(const config::Job& job, const std::string& program,
                         const std::string& channels) {
  if (!job.in_container()) return job.trainer.command;
  const std::string root = job.home() + "/" + std::string(config::container_folder);
  std::string line = "exec " + wire::shell_quoted(program) + " pipe --root " +
                     wire::shell_quoted(root) + " --state " + wire::shell_quoted(root + "/state");
  if (const std::string cache = usable_cache(job); !cache.empty())
    line += " --cache " + wire::shell_quoted(cache);
  if (!job.channels.all.empty()) line += " --channels " + wire::shell_quoted(channels);
  return line + " -- \"$SHELL\" -c " + wire::shell_quoted(job.trainer.command);
}

// Before all else of the trainer, where S3 may have a newer checkpoint than the storage: as the
// trainer's user, with its role, in its time.
std::string after_fetching(const config::Job& job, const std::string& program,
                           const std::string& line) {
  const auto from = job.checkpoints_in_s3();
  if (!from) return line;
  std::string fetching = "exec " + wire::shell_quoted(program) + " tier fetch";
  for (const auto& [option, value] : {std::pair<const char*, std::string>{" --mount ", job.home()},
                                      {" --directory ", job.checkpoints.directory},
                                      {" --folders ", job.checkpoints.folders},
                                      {" --to ", wire::to_url(*from)},
                                      {" --job ", job.volumes_owner()}})
    fetching += option + wire::shell_quoted(value);
  return fetching + " -- \"$SHELL\" -c " + wire::shell_quoted(line);
}

// Before all else, in the folder of the code: also what a gang runs is in that environment.
std::string after_setting_up(const config::Job& job, const std::string& program,
                             const std::string& line) {
  if (job.setup.empty()) return line;
  std::string words = wire::shell_quoted(program) + " set-up " + wire::shell_quoted(job.home());
  for (const std::string& each : job.setup) words += " " + wire::shell_quoted(each);
  return "exec " + words + " -- \"$SHELL\" -c " + wire::shell_quoted(line);
}

// Adds the folder of the agent's package for `import spotter`, which is beside the program's own,
// after those that the user names. There is none without the package (a build).
void add_python(const std::string& program, std::string& path) {
  const fs::path of_programs = fs::path(program).parent_path();
  const fs::path folder = of_programs.parent_path() / "lib/spotter/path";
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  path += (path.empty() ? "" : ":") + folder.string();
}

// "A B ".
template <class Values>
std::string names_of(const Values& values) {
  std::string names;
  for (const auto& [name, value] : values) names += name + " ";
  return names;
}

std::string lines_of(const std::vector<wire::Channel>& channels) {
  std::string lines;
  for (const auto& channel : channels) lines += wire::describe(channel) + "\n";
  return lines;
}

}  // namespace

std::string log_file_of(const config::Job& job, const std::string& run_directory) {
  return job.storage.share ? run_directory + "/trainer.log" : job.home() + "/log/trainer.log";
}

asio::awaitable<Result<std::string, decide::EffectFailed>> Trainer::code_token(Duration limit) {
  if (!job_.code || !job_.code->token) co_return std::string();
  co_return co_await read_secret(aws_, *job_.code->token, limit);
}

// The trainer's credentials and region at AWS: Python's SDKs read only the region's second
// variable.
asio::awaitable<Result<void, decide::EffectFailed>> Trainer::add_identity(Variables& to) {
  if (const std::string region = aws_.region().str(); !region.empty()) {
    to.emplace("AWS_REGION", region);
    to.emplace("AWS_DEFAULT_REGION", to["AWS_REGION"]);
  }
  auto offered = co_await keys_.offer();
  if (!offered) {
    EffectFailed failed = as_failure(offered.error());
    failed.unsettled = false;  // nothing was changed
    co_return tl::unexpected(failed);
  }
  if (offered->empty()) co_return Result<void, decide::EffectFailed>{};
  for (const char* name : identity_variables) to.erase(name);
  to.merge(*offered);
  if (job_.trainer.imds_allowed) co_return Result<void, decide::EffectFailed>{};
  to["AWS_EC2_METADATA_DISABLED"] = "true";
  to.erase("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  co_return Result<void, decide::EffectFailed>{};
}

asio::awaitable<Result<Trainer::Variables, decide::EffectFailed>> Trainer::environment(
    Duration limit) {
  const std::string mount = job_.trainers_home();
  const Variables ours = config::variables_of_process();
  Variables result;
  if (job_.trainer.inherits) {
    for (const auto& [name, value] : ours) {
      if (!name.starts_with("SPOTTER_") || name == "SPOTTER_LIBRARY") result.emplace(name, value);
    }
  }
  for (const char* name : kPassedOn) {
    const auto found = ours.find(name);
    if (found != ours.end()) result[name] = found->second;
  }
  for (const char* name : kProxies) {
    const auto found = ours.find(name);
    const bool is_open = found != ours.end() && found->second.find('@') == std::string::npos;
    if (is_open) result[name] = found->second;
  }
  if (const auto identified = co_await add_identity(result); !identified)
    co_return tl::unexpected(identified.error());
  result["NOTIFY_SOCKET"] = paths_.run_directory + "/trainer.sock";
  result["SPOTTER_NOTICE_FILE"] = paths_.run_directory + "/" + supervise::notice_name;
  result["SPOTTER_PACE_FILE"] = paths_.run_directory + "/pace";
  result["SPOTTER_STORAGE"] = mount;
  result["SPOTTER_CHECKPOINTS"] = mount + "/" + job_.checkpoints.directory;
  result["SPOTTER_JOB"] = job_.name.str();
  if (job_.has_users_home()) result["HOME"] = mount + "/" + config::users_home;
  if (job_.code)  // on a share the tree may have another owner, and git reads no such
    result.insert({{"GIT_CONFIG_COUNT", "1"},
                   {"GIT_CONFIG_KEY_0", "safe.directory"},
                   {"GIT_CONFIG_VALUE_0", mount + "/code"}});
  if (std::string cache = usable_cache(job_); !cache.empty())
    result["SPOTTER_CACHE"] = std::move(cache);
  if (job_.sagemaker && !job_.sagemaker->hyperparameters.empty())
    result["SPOTTER_PARAMETERS"] = nlohmann::json(job_.sagemaker->hyperparameters).dump();
  if (job_.experiment) {
    result["SPOTTER_EXPERIMENT"] = std::to_string(job_.experiment->index);
    result["SPOTTER_PARAMETERS"] = sweep::to_json(job_.experiment->set);
    result["SPOTTER_PARAMETERS_FILE"] = paths_.run_directory + "/parameters.json";
    result["SPOTTER_MODEL"] = mount + "/" + std::string(config::model_folder);
  }
  for (const auto& [name, value] : job_.trainer.env) result[name] = value;
  for (const auto& [name, reference] : job_.trainer.secrets) {
    auto value = co_await read_secret(aws_, reference, limit);
    if (!value) co_return tl::unexpected(value.error());
    result[name] = std::move(*value);
  }
  std::string python = result["PYTHONPATH"];
  add_python(paths_.program, python);
  if (python.empty())
    result.erase("PYTHONPATH");
  else
    result["PYTHONPATH"] = std::move(python);
  co_return result;
}

// The same, but the supervisor is a service of its own.
std::vector<std::string> Trainer::in_unit() const {
  const auto& trainer = job_.trainer;
  std::vector<std::string> words = {paths_.program, "unit", "trainer", "--name",
                                    job_.volumes_owner()};
  for (const auto& [option, value] :
       {std::pair<std::string, std::string>{"--run-directory=", paths_.run_directory},
        {"--home=", job_.trainers_home()},
        {"--user=", trainer.user},
        {"--memory-max=", trainer.memory_max},
        {"--cpu-quota=", trainer.cpu_quota},
        {"--cpu-weight=", trainer.cpu_weight}})
    if (!value.empty()) words.push_back(option + value);
  words.push_back("--grace=" + in_seconds(trainer.stop_grace.value_or(Duration(0))));
  for (const wire::Channel& each : job_.channels.all)
    if (each.mode == wire::InputMode::FastFile) words.push_back("--view=" + each.name);
  words.push_back("--views-folder=" + std::string(config::container_folder) + "/input/data");
  if (!trainer.imds_allowed) words.push_back("--refuse-metadata");
  return words;
}

// The guard's command line.
std::vector<std::string> Trainer::guard() const {
  const config::Checkpoints& kept = job_.checkpoints;
  if (job_.gang) return {};  // libspotter's own checkpoints
  std::vector<std::string> words = {
      paths_.program, "guard",        "--mount",  job_.home(),
      "--directory",  kept.directory, "--socket", paths_.run_directory + "/trainer.sock"};
  if (!kept.files.empty()) words.insert(words.end(), {"--files", kept.files});
  if (!kept.folders.empty()) words.insert(words.end(), {"--folders", kept.folders});
  if (!kept.set.empty()) words.insert(words.end(), {"--set", kept.set});
  if (job_.metrics) words.insert(words.end(), {"--log", job_.metrics->file()});
  if (is_on_share()) words.insert(words.end(), {"--as", job_.trainer.user});
  if (kept.keep_best) {
    words.insert(words.end(), {"--best", kept.keep_best->metric});
    if (!kept.keep_best->largest_is_best) words.emplace_back("--smallest");
  }
  if (const auto to = job_.checkpoints_in_s3())
    words.insert(words.end(), {"--copies", wire::to_url(*to), "--job", job_.volumes_owner(),
                               "--user", job_.trainer.user});
  return words;
}

std::vector<std::string> Trainer::follower() const {
  if (!job_.metrics) return {};
  const config::MetricsLog& log = *job_.metrics;
  std::vector<std::string> words = {paths_.program, "follow-log", "--home=" + job_.home(),
                                    "--socket=" + paths_.run_directory + "/trainer.sock",
                                    (log.csv.empty() ? "--json-lines=" : "--csv=") + log.file()};
  for (const auto& [ours, its] : log.columns) words.push_back("--column=" + ours + "=" + its);
  if (const auto& best = job_.checkpoints.keep_best)
    words.push_back("--wanted=" + wire::name_of_column(best->metric, {}));
  return words;
}

Trainer::Answer Trainer::start(decide::StartTrainer effect, Duration limit) {
  supervise::forget_stops(paths_.run_directory);
  pace({effect.checkpoint_every});
  const auto collected = supervise::collect(paths_.run_directory);
  // The supervisor waits longer for those that do not end at once, and says so.
  if (!collected && collected.error().kind != supervise::processes_left)
    co_return unstartable(collected.error().message);
  auto variables = co_await environment(limit);
  if (!variables) co_return variables.error();

  supervise::Spec spec;
  if (job_.experiment) {
    const std::string file = paths_.run_directory + "/parameters.json";
    const std::string set = sweep::to_json(job_.experiment->set) + "\n";
    if (const auto written = io::atomic_write(file, set, supervise::shown_mode); !written)
      co_return unstartable("cannot write " + file + ": " + written.error().message());
  }
  const std::string channels = paths_.run_directory + "/channels";
  if (!job_.channels.all.empty()) {
    const std::string lines = lines_of(job_.channels.all);
    if (const auto written = io::atomic_write(channels, lines, supervise::shown_mode); !written)
      co_return unstartable("cannot write " + channels + ": " + written.error().message());
  }
  spec.command = after_setting_up(
      job_, paths_.program,
      config::in_gang(
          job_, paths_.program,
          after_fetching(job_, paths_.program, command_line(job_, paths_.program, channels)),
          effect.replaced));
  spec.sets_up = !job_.setup.empty();
  spec.user = job_.trainer.user;
  spec.environment = std::move(*variables);
  spec.environment.emplace(kEvery, in_seconds(effect.checkpoint_every));
  spec.own = names_of(job_.trainer.secrets) + names_of(job_.trainer.env);
  spec.secrets = names_of(job_.trainer.secrets) + container_token;
  spec.environment_kind = config::to_text(job_.trainer.environment);
  spec.working_directory = job_.home() + (job_.code ? "/code" : "");
  spec.log_file = log_file_of(job_, paths_.run_directory);
  spec.stop_signal = job_.trainer.stop_signal.value_or(0);
  spec.job = job_.name.str();
  spec.lease = paths_.lease;
  spec.refuse_metadata = units::wanted() && !job_.trainer.imds_allowed;  // the service does that
  spec.refuse_administrators = units::wanted() && !job_.trainer.trusted;
  spec.sidecar = guard();
  spec.follower = follower();

  io::ProcessRequest request;
  request.argv = {paths_.program,       "supervise", "--run-directory",
                  paths_.run_directory, "--spec",    "-"};
  if (units::wanted()) request.argv = in_unit();
  request.stdin_text = supervise::to_json(spec);
  request.timeout = limit;
  const io::ProcessResult result = co_await io::run(std::move(request));
  if (result.end == io::ProcessResult::End::TimedOut ||
      result.end == io::ProcessResult::End::Cancelled) {
    EffectFailed unknown = unstartable("the supervisor did not answer in time");
    unknown.unsettled = true;  // it may have detached already, and start the trainer yet
    co_return unknown;
  }
  const bool started = result.end == io::ProcessResult::End::Exited && result.status == 0;
  if (started) co_return decide::TrainerStarted{};
  EffectFailed failed =
      unstartable(result.errors.empty() ? "the supervisor did not answer" : result.errors);
  const bool exited = result.end == io::ProcessResult::End::Exited;
  if (exited && result.status == supervise::processes_left_status)
    failed.failure = Failure::ProcessesLeft;
  co_return failed;
}

// In a file of the run directory, where it looks.
void Trainer::tell(const char* name, const nlohmann::json& what) const {
  const std::string path = paths_.run_directory + "/" + name;
  if (const auto written = io::atomic_write(path, what.dump() + "\n", supervise::shown_mode);
      !written)
    spdlog::warn("cannot write {}: {}", path, written.error().message());
}

decide::Happening Trainer::stop(const decide::StopTrainer& effect) {
  nlohmann::json notice = {{"action", to_text(effect.action)},
                           {"deadline_boottime_ms", effect.deadline.time_since_epoch().count()},
                           {"at", wire::to_rfc3339(std::chrono::floor<std::chrono::seconds>(
                                      std::chrono::system_clock::now()))}};
  if (effect.usable_until != Time::max())
    notice["stop_by_boottime_ms"] = effect.usable_until.time_since_epoch().count();
  tell(supervise::notice_name, notice);
  if (!job_.trainer.stop_signal || effect.signalled) return decide::CallAccepted{};
  const auto sent = supervise::send_signal(paths_.run_directory, *job_.trainer.stop_signal);
  if (!sent) return unstartable(sent.error().message);
  return decide::CallAccepted{};
}

// An advice: a trainer that cannot be reached goes on as it did.
decide::Happening Trainer::pace(const decide::PaceTrainer& effect) {
  nlohmann::json advice = nlohmann::json::object();
  // A value of job.yaml has precedence.
  if (!job_.trainer.env.contains(kEvery)) {
    advice["checkpoint_every_seconds"] =
        std::chrono::duration<double>(effect.checkpoint_every).count();
  }
  if (effect.asked != Time::max())
    advice["asked_boottime_ms"] = effect.asked.time_since_epoch().count();
  tell("pace", advice);
  return decide::CallAccepted{};
}

decide::Happening Trainer::kill() {
  if (const auto sent = supervise::kill(paths_.run_directory); !sent)
    return unstartable(sent.error().message);
  return decide::CallAccepted{};
}

}  // namespace spotter::act
