#include "agent/supervise/launch.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "agent/base/record.hpp"
#include "agent/base/text.hpp"
#include "agent/supervise/account.hpp"
#include "agent/supervise/trainer.hpp"

namespace spotter::config {

// Reads it as a part of a record (base/record.hpp).
wire::Wrong read_own(const wire::Json& json, PythonEnvironment& environment) {
  std::string text;
  if (auto wrong = wire::read_value(json, text); !wrong.empty() || text.empty()) return wrong;
  auto parsed = parse_python_environment(text);
  if (!parsed) return ": " + parsed.error().message;
  environment = *std::move(parsed);
  return {};
}

wire::Json shown_own(const PythonEnvironment& environment) { return to_text(environment); }

}  // namespace spotter::config

namespace spotter::supervise {
namespace {

using wire::Json;

constexpr std::uint64_t known_version = 1;

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
  for (const auto* program : {&spec.sidecar, &spec.follower})
    if (!program->empty() && !program->front().starts_with('/'))
      return failure("spec: a program must begin with an absolute path");
  if (spec.stop_signal < 0 || spec.stop_signal > SIGRTMAX)
    return failure("spec: 'stop_signal' must be a signal's number, or 0");
  for (const auto& [name, value] : spec.environment)
    if (name.empty() || name.find('=') != name.npos)
      return failure("spec: a variable's name must not be empty or hold '='");
  const auto has_nul = [](const std::string& text) { return text.find('\0') != text.npos; };
  const Json texts = wire::object_of(spec).flatten();
  for (const auto& [path, value] : texts.items())
    if (has_nul(path) || (value.is_string() && has_nul(value.get_ref<const std::string&>())))
      return failure("spec: a text holds a NUL character");
  return {};
}

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

// A Python environment as it is on this machine.
struct Found {
  std::string root;      // empty: none is wanted
  Variables identity;    // which environment it is
  Variables variables;   // its own, as `conda env config vars` and packages set them
  std::string activate;  // the shell's lines that its packages want to be run
  std::string script;    // of the environment's own, which may have lines of its user; empty: none
};

std::vector<std::string> fields(std::string_view text, char separator) {
  std::vector<std::string> found;
  while (!text.empty()) {
    if (const auto field = trimmed(take_until(text, separator)); !field.empty())
      found.emplace_back(field);
  }
  return found;
}

bool is_there(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string value_of(const Variables& variables, const std::string& name, std::string otherwise) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? std::move(otherwise) : found->second;
}

// The names in a folder that end so, sorted.
std::vector<std::string> names_in(const std::string& folder, std::string_view end) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator(folder, error))
    if (std::string name = each.path().filename(); name.ends_with(end)) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

std::string absolute(const std::string& path, const std::string& home, const std::string& here) {
  if (path.starts_with("~/")) return home + path.substr(1);
  return path.starts_with('/') ? path : here + "/" + path;
}

Result<std::string> first_of(const std::vector<std::string>& candidates, const std::string& what,
                             const std::string& advice) {
  std::string searched;
  for (const auto& each : candidates) {
    if (is_there(each + "/bin/python")) return each;
    searched += (searched.empty() ? "" : ", ") + each;
  }
  return failure("there is no " + what + " with a bin/python; looked at " + searched + advice);
}

// Reads .condarc: `envs_dirs: [A, B]`, or a line `- A` for each.
std::vector<std::string> envs_dirs(std::string text) {
  constexpr std::string_view key = "envs_dirs:";
  std::vector<std::string> found;
  std::string_view rest = text;
  bool inside = false;
  while (!rest.empty()) {
    std::string_view line = take_until(rest, '\n');
    const bool item = trimmed(line).starts_with("- ");
    inside = line.starts_with(key) || (inside && item);
    if (!inside) continue;
    std::string value(item ? trimmed(line).substr(2) : line.substr(key.size()));
    std::erase_if(value, [](char each) {
      return std::string_view("[]\"'").find(each) != std::string_view::npos;
    });
    std::ranges::move(fields(value, ','), std::back_inserter(found));
  }
  return found;
}

// Where conda, mamba and micromamba have the environments of a user, and those that the user made
// elsewhere, which conda lists.
std::vector<std::string> conda_places(const std::string& name, const Account& account,
                                      const Variables& given, const std::string& home) {
  namespace fs = std::filesystem;
  std::vector<std::string> places;
  std::vector<std::string> roots;
  if (const std::string conda = value_of(given, "CONDA_EXE", ""); !conda.empty())
    roots.push_back(fs::path(conda).parent_path().parent_path());
  for (const char* kind : {"MAMBA_ROOT_PREFIX", "CONDA_ROOT"})
    if (std::string root = value_of(given, kind, ""); !root.empty()) roots.push_back(root);
  for (const char* kind : {"CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"})
    for (const auto& folder : fields(value_of(given, kind, ""), ':'))
      places.push_back(folder + "/" + name);
  for (const char* kind : {"/.conda", "/.local/share/mamba"}) roots.push_back(home + kind);
  for (const std::string& above : {home, std::string("/opt"), std::string("/usr/local")})
    for (const char* kind : {"conda", "miniconda3", "anaconda3", "miniforge3", "mambaforge",
                             "micromamba", "mamba", "miniconda", "anaconda"})
      roots.push_back(above + "/" + kind);
  for (const auto& folder : envs_dirs(read_as(account, home + "/.condarc")))
    places.push_back(absolute(folder, home, home) + "/" + name);
  for (const auto& root : roots) places.push_back(name == "base" ? root : root + "/envs/" + name);
  for (const auto& each : fields(read_as(account, home + "/.conda/environments.txt"), '\n'))
    if (fs::path(each).filename() == name) places.push_back(each);
  return places;
}

// Folders of venv, virtualenvwrapper, pyenv and pipenv, and a project's as uv and poetry make them.
std::vector<std::string> venv_places(const std::string& name, const Variables& given,
                                     const std::string& home, const std::string& here) {
  const std::string path = absolute(name, home, here);
  std::vector<std::string> places{path, path + "/.venv"};
  if (name.find('/') != name.npos) return places;
  places.push_back(value_of(given, "PYENV_ROOT", home + "/.pyenv") + "/versions/" + name);
  places.push_back(value_of(given, "WORKON_HOME", home + "/.virtualenvs") + "/" + name);
  const std::string poetry = value_of(given, "POETRY_CACHE_DIR", home + "/.cache/pypoetry");
  for (const std::string& folder : {poetry + "/virtualenvs", home + "/.local/share/virtualenvs"})
    for (const auto& each : names_in(folder, ""))        // poetry's and pipenv's
      if (each == name || each.starts_with(name + "-"))  // NAME-HASH-py3.12
        places.push_back(folder + "/" + each);
  return places;
}

void add_variables(const Json& from, Variables& to) {
  constexpr std::string_view left_out = "***unset***";
  if (!from.is_object()) return;
  for (const auto& [name, value] : from.items()) {
    const bool good = value.is_string() && !name.empty() && name.find('=') == name.npos &&
                      (name + value.get_ref<const std::string&>()).find('\0') == name.npos;
    if (good && value.get_ref<const std::string&>() != left_out) to[name] = value;
  }
}

// Source: https://docs.conda.io/projects/conda/en/stable/dev-guide/deep-dives/activation.html
Found conda(const std::string& name, std::string root, const Launch& launch) {
  Found found{.root = std::move(root)};
  const auto json = [&](const std::string& path) {
    return wire::parsed_json(read_as(launch.account, path));
  };
  const std::string of_packages = found.root + "/etc/conda/env_vars.d/";
  for (const auto& file : names_in(of_packages, ".json"))
    add_variables(json(of_packages + file), found.variables);
  if (const Json state = json(found.root + "/conda-meta/state"); state.is_object())
    add_variables(state.value("env_vars", Json()), found.variables);
  const std::string scripts = found.root + "/etc/conda/activate.d/";
  for (const auto& file : names_in(scripts, launch.shell.ends_with("/fish") ? ".fish" : ".sh"))
    found.activate += ". " + wire::shell_quoted(scripts + file) + "\n";
  found.identity = {{"CONDA_PREFIX", found.root},
                    {"CONDA_DEFAULT_ENV", name},
                    {"CONDA_PROMPT_MODIFIER", "(" + name + ") "},
                    {"CONDA_SHLVL", "1"}};
  const auto envs = found.root.rfind("/envs/");
  const std::string base = found.root.substr(0, envs);
  if (is_there(base + "/bin/conda")) {
    found.identity["CONDA_EXE"] = base + "/bin/conda";
    found.identity["CONDA_PYTHON_EXE"] = base + "/bin/python";
  }
  return found;
}

// What `conda activate` and `source bin/activate` would find.
Result<Found> find_environment(const Spec& spec, const Launch& launch) {
  const auto& [kind, name] = spec.environment_kind;
  if (kind == Kind::None) return Found{};
  const std::string home = value_of(spec.environment, "HOME", launch.account.home);
  const std::string& here = launch.working_directory;
  if (kind == Kind::Conda) {
    const bool is_path = name.find('/') != name.npos;
    auto root = first_of(is_path ? std::vector{absolute(name, home, here)}
                                 : conda_places(name, launch.account, spec.environment, home),
                         "conda environment '" + name + "'", "");
    if (!root) return tl::unexpected(root.error());
    return conda(name, *std::move(root), launch);
  }
  auto root =
      first_of(venv_places(name, spec.environment, home, here), "Python environment '" + name + "'",
               "; make it: python3 -m venv " + absolute(name, home, here));
  if (!root) return tl::unexpected(root.error());
  const std::string script =
      *root + "/bin/activate" + (launch.shell.ends_with("/fish") ? ".fish" : "");
  return Found{.root = *root,
               .identity = {{"VIRTUAL_ENV", *root}},
               .script = is_there(script) ? script : ""};
}

// The environment is entered in the command, because a login shell's profile (as Debian's
// /etc/profile, or what `conda init` writes) replaces PATH, and may enter another one.
std::string command_line(const Spec& spec, const Found& found) {
  const auto path = spec.environment.find("PATH");
  const bool given = path != spec.environment.end();
  std::string line;
  if (!found.root.empty()) line += "unset PYTHONHOME VIRTUAL_ENV\n";
  // Before the rest, as the script of a folder that was moved names where it was made.
  const bool sourced = !found.script.empty();
  if (sourced && given) line += "export PATH=" + wire::shell_quoted(path->second) + "\n";
  if (sourced) line += ". " + wire::shell_quoted(found.script) + "\n";
  for (const auto& [name, value] : found.identity)
    line += "export " + name + "=" + wire::shell_quoted(value) + "\n";
  if (given || !found.root.empty()) {
    line += "export PATH=";
    if (!found.root.empty()) line += wire::shell_quoted(found.root + "/bin") + ":";
    line += (given && !sourced ? wire::shell_quoted(path->second) : "\"$PATH\"") + "\n";
  }
  return line + found.activate + spec.command;
}

}  // namespace

Result<Spec> parse_spec(std::string_view text) {
  if (text.size() > spec_size_limit) return failure("spec: larger than 4 MiB");
  const Json json = wire::parsed_json(text);
  if (!json.is_object()) return failure("spec: not a JSON object");
  if (auto newer = wire::newer(json, "version", known_version, "spec: this"))
    return tl::unexpected<Error>(std::move(*newer));
  Spec spec;
  if (const auto wrong = wire::read_record(json, spec); !wrong.empty())
    return failure("spec" + wrong);
  if (auto good = check(spec); !good) return tl::unexpected(good.error());
  return spec;
}

std::string to_json(const Spec& spec) {
  Json json = wire::object_of(spec);
  json["version"] = known_version;
  return wire::json_text(json);
}

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
  const auto found = find_environment(spec, launch);
  if (!found) return tl::unexpected(found.error());
  for (const auto& [name, value] : spec.environment) variables[name] = value;
  const auto own = fields(spec.own, ' ');
  for (const auto& [name, value] : found->variables)
    if (std::ranges::find(own, name) == own.end()) variables[name] = value;
  for (const auto& [name, value] : found->identity) variables[name] = value;
  if (!found->root.empty()) variables["PATH"] = found->root + "/bin:" + variables["PATH"];
  for (const auto& [name, value] : variables) launch.environment.push_back(name + "=" + value);
  launch.arguments = {launch.shell, "-l", "-c", command_line(spec, *found)};
  return launch;
}

}  // namespace spotter::supervise
