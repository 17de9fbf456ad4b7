#include "agent/supervise/launch.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "agent/base/shell.hpp"
#include "agent/base/version.hpp"
#include "agent/supervise/account.hpp"

namespace spotter::supervise {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t known_version = 1;

// Reads a key of this type. No message contains a value, which may be a secret.
Result<std::string> text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::string();
  if (!found->is_string()) return failure(std::string("spec: '") + key + "' must be a string");
  auto text = found->get<std::string>();
  if (text.find('\0') != text.npos)
    return failure(std::string("spec: '") + key + "' holds a NUL character");
  return text;
}

Result<void> read_environment(const Json& json, Spec& spec) {
  const auto found = json.find("environment");
  if (found == json.end()) return {};
  if (!found->is_object()) return failure("spec: 'environment' must be an object");
  for (const auto& [name, value] : found->items()) {
    const bool good = !name.empty() && name.find('=') == name.npos && name.find('\0') == name.npos;
    if (!good) return failure("spec: a variable's name must not be empty or hold '='");
    if (!value.is_string() || value.get_ref<const std::string&>().find('\0') != std::string::npos)
      return failure("spec: environment '" + name + "' must be a string without NUL characters");
    spec.environment[name] = value.get<std::string>();
  }
  return {};
}

Result<void> read_program(const Json& json, const std::string& key,
                          std::vector<std::string>& program) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  const auto wrong = [&key] { return failure("spec: '" + key + "' must be a list of strings"); };
  if (!found->is_array()) return wrong();
  for (const Json& word : *found) {
    if (!word.is_string()) return wrong();
    program.push_back(word.get<std::string>());
  }
  if (!program.empty() && !program.front().starts_with('/'))
    return failure("spec: '" + key + "' must begin with an absolute path");
  return {};
}

Result<void> check(const Spec& spec) {
  const auto relative = [](const std::string& path) { return !path.empty() && path[0] != '/'; };
  if (spec.command.empty()) return failure("spec: 'command' is missing");
  if (spec.user.empty()) return failure("spec: 'user' is missing");
  if (spec.log_file.empty()) return failure("spec: 'log_file' is missing");
  if (relative(spec.log_file)) return failure("spec: 'log_file' must be an absolute path");
  if (relative(spec.lease)) return failure("spec: 'lease' must be an absolute path");
  if (relative(spec.shell)) return failure("spec: 'shell' must be an absolute path");
  if (relative(spec.working_directory))
    return failure("spec: 'working_directory' must be an absolute path");
  return {};
}

Result<void> read_texts(const Json& json, Spec& spec) {
  const std::pair<const char*, std::string*> texts[] = {
      {"command", &spec.command}, {"shell", &spec.shell},
      {"user", &spec.user},       {"working_directory", &spec.working_directory},
      {"job", &spec.job},         {"log_file", &spec.log_file},
      {"secrets", &spec.secrets}, {"lease", &spec.lease}};
  for (const auto& [key, target] : texts) {
    auto text = text_of(json, key);
    if (!text) return tl::unexpected(text.error());
    *target = *std::move(text);
  }
  return {};
}

}  // namespace

Result<Spec> parse_spec(std::string_view text) {
  if (text.size() > spec_size_limit) return failure("spec: larger than 4 MiB");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return failure("spec: not a JSON object");
  if (auto newer = wire::newer(json, "version", known_version, "spec: this")) {
    return tl::unexpected<Error>(std::move(*newer));
  }
  Spec spec;
  if (auto read = read_texts(json, spec); !read) return tl::unexpected(read.error());
  if (auto read = read_environment(json, spec); !read) return tl::unexpected(read.error());
  auto read = read_program(json, "companion", spec.sidecar);
  if (read) read = read_program(json, "follower", spec.follower);
  if (!read) return tl::unexpected(read.error());
  const auto kind = text_of(json, "environment_kind");
  if (!kind) return tl::unexpected(kind.error());
  if (!kind->empty()) {
    const auto environment = config::parse_python_environment(*kind);
    if (!environment) return failure("spec: environment_kind: " + environment.error().message);
    spec.environment_kind = *environment;
  }
  if (const auto signal = json.find("stop_signal"); signal != json.end()) {
    // Compared before it is narrowed to an int.
    if (!signal->is_number_integer() || *signal < 0 || *signal > SIGRTMAX)
      return failure("spec: 'stop_signal' must be a signal's number, or 0");
    spec.stop_signal = signal->get<int>();
  }
  for (const auto& [key, to] : {std::pair{"refuse_metadata", &spec.refuse_metadata},
                                std::pair{"refuse_administrators", &spec.refuse_administrators}}) {
    const auto refuse = json.find(key);
    if (refuse == json.end()) continue;
    if (!refuse->is_boolean())
      return failure(std::string("spec: '") + key + "' must be true or false");
    *to = refuse->get<bool>();
  }
  if (auto good = check(spec); !good) return tl::unexpected(good.error());
  return spec;
}

std::string to_json(const Spec& spec) {
  const Json json{{"version", known_version},
                  {"command", spec.command},
                  {"shell", spec.shell},
                  {"user", spec.user},
                  {"environment", spec.environment},
                  {"secrets", spec.secrets},
                  {"environment_kind", config::to_text(spec.environment_kind)},
                  {"working_directory", spec.working_directory},
                  {"log_file", spec.log_file},
                  {"stop_signal", spec.stop_signal},
                  {"job", spec.job},
                  {"lease", spec.lease},
                  {"refuse_metadata", spec.refuse_metadata},
                  {"refuse_administrators", spec.refuse_administrators},
                  {"companion", spec.sidecar},
                  {"follower", spec.follower}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

using Variables = std::map<std::string, std::string>;
using Kind = config::PythonEnvironment::Kind;

bool is_directory(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

Result<Account> find_account(const std::string& name) {
  const passwd* entry = getpwnam(name.c_str());
  if (entry == nullptr)
    return failure("there is no user '" + name + "' on this machine (trainer.user of job.yaml)");
  Account account{.name = name,
                  .uid = entry->pw_uid,
                  .gid = entry->pw_gid,
                  .home = entry->pw_dir,
                  .shell = entry->pw_shell};
  if (geteuid() != 0 && account.uid != geteuid()) {
    const passwd* self = getpwuid(geteuid());
    return failure("only root can run the trainer as '" + name + "'; we are '" +
                   (self != nullptr ? self->pw_name : std::to_string(geteuid())) + "'");
  }
  account.groups = groups_of(name, account.gid);
  return account;
}

// A job may run as a system account, which has no login shell.
std::string login_shell(const Spec& spec, const Account& account) {
  if (!spec.shell.empty()) return spec.shell;
  if (is_login_shell(account.shell)) return account.shell.empty() ? "/bin/sh" : account.shell;
  return access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

// An environment's root, where its bin/python is.
Result<std::string> find_conda(const std::string& name, const Account& account) {
  const bool is_path = name[0] == '/';
  std::vector<std::string> candidates;
  std::string searched;
  if (is_path) candidates.push_back(name);
  if (!is_path) {
    std::vector<std::string> roots{account.home + "/.conda"};
    for (const std::string& above : {account.home, std::string("/opt")})
      for (const char* kind : {"conda", "miniconda3", "anaconda3", "miniforge3", "mambaforge"})
        roots.push_back(above + "/" + kind);
    for (const auto& root : roots)
      candidates.push_back(name == "base" ? root : root + "/envs/" + name);
  }
  for (const auto& candidate : candidates) {
    if (access((candidate + "/bin/python").c_str(), F_OK) == 0) return candidate;
    searched += (searched.empty() ? "" : ", ") + candidate;
  }
  return failure("there is no conda environment '" + name + "' with a bin/python; looked at " +
                 searched);
}

// Does what `conda activate` and `source bin/activate` do, except for the prompt. Returns the
// directory for PATH.
Result<std::string> activate(const Spec& spec, const Launch& launch, Variables& variables) {
  const auto& wanted = spec.environment_kind;
  if (wanted.kind == Kind::None) return std::string();
  if (wanted.kind == Kind::Conda) {
    auto root = find_conda(wanted.name, launch.account);
    if (!root) return root;
    variables["CONDA_PREFIX"] = *root;
    variables["CONDA_DEFAULT_ENV"] = wanted.name;
    return *root + "/bin";
  }
  const std::string root =
      wanted.name[0] == '/' ? wanted.name : launch.working_directory + "/" + wanted.name;
  if (access((root + "/bin/python").c_str(), F_OK) != 0)
    return failure("there is no Python environment at " + root + " (" + root +
                   "/bin/python is missing); make it: python3 -m venv " + root);
  variables["VIRTUAL_ENV"] = root;
  return root + "/bin";
}

// The job's PATH is exported in the command, because a login shell's profile (as Debian's
// /etc/profile) replaces PATH.
std::string command_line(const Spec& spec, const std::string& bin) {
  const auto path = spec.environment.find("PATH");
  const bool given = path != spec.environment.end();
  if (bin.empty() && !given) return spec.command;
  std::string line = "export PATH=";
  if (!bin.empty()) line += wire::shell_quoted(bin) + ":";
  line += given ? wire::shell_quoted(path->second) : "\"$PATH\"";
  return line + "\n" + spec.command;
}

}  // namespace

Result<Launch> prepare(const Spec& spec) {
  auto account = find_account(spec.user);
  if (!account) return tl::unexpected(account.error());
  if (spec.refuse_administrators)
    if (const std::string right = administrators_right(spec.user); !right.empty())
      return failure("the user '" + spec.user + "' could become root (" + right +
                     "): " + std::string(instead_of_an_administrator));
  Launch launch{.account = *std::move(account)};
  launch.refuse_metadata = spec.refuse_metadata && launch.account.uid != geteuid();
  launch.shell = login_shell(spec, launch.account);
  if (access(launch.shell.c_str(), X_OK) != 0)
    return failure("the login shell " + launch.shell + " of user '" + spec.user +
                   "' cannot be run");
  launch.working_directory =
      spec.working_directory.empty() ? launch.account.home : spec.working_directory;
  if (!is_directory(launch.working_directory))
    return failure("the working directory " + launch.working_directory + " does not exist");
  Variables variables{{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                      {"LANG", "C.UTF-8"},
                      {"HOME", launch.account.home},
                      {"USER", launch.account.name},
                      {"LOGNAME", launch.account.name},
                      {"SHELL", launch.shell}};
  const auto bin = activate(spec, launch, variables);
  if (!bin) return tl::unexpected(bin.error());
  for (const auto& [name, value] : spec.environment) variables[name] = value;
  if (!bin->empty()) variables["PATH"] = *bin + ":" + variables["PATH"];
  for (const auto& [name, value] : variables) launch.environment.push_back(name + "=" + value);
  launch.arguments = {launch.shell, "-l", "-c", command_line(spec, *bin)};
  return launch;
}

}  // namespace spotter::supervise
