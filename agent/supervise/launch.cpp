#include "agent/supervise/launch.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "agent/aws/settings/settings.hpp"
#include "agent/base/record.hpp"
#include "agent/base/text.hpp"
#include "agent/config/python_environment.hpp"
#include "agent/config/reader.hpp"
#include "agent/supervise/trainer.hpp"

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
  if (auto kind = config::parse_python_environment(spec.environment_kind); !kind)
    return failure("spec: \"environment_kind\": " + kind.error().message);
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

// A job may run as a system account, which has no login shell.
std::string login_shell(const Spec& spec, const Account& account) {
  if (!spec.shell.empty()) return spec.shell;
  if (is_login_shell(account.shell)) return account.shell.empty() ? "/bin/sh" : account.shell;
  return access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

// A Python environment as it is on this machine.
struct Found {
  std::string root;      // empty: none is wanted
  Variables variables;   // as `conda env config vars` and packages set them, and which one it is
  std::string leave;     // the shell's lines that leave the environment that it is in
  std::string activate;  // those that its packages want to be run
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
  for (const auto& each : fs::directory_iterator(folder, error))
    if (std::string name = each.path().filename(); name.ends_with(end)) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

std::string absolute(const std::string& path, const std::string& home, const std::string& here) {
  const fs::path given = path.starts_with("~/") ? home + path.substr(1) : path;
  std::string whole = (fs::path(here) / given).lexically_normal();
  while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  return whole;
}

// One of conda may have no Python, as of R.
bool is_environment(const std::string& root) {
  return is_there(root + "/bin/python") || is_there(root + "/bin/python3") ||
         is_there(root + "/conda-meta");
}

// The likely places are named alone: a long sentence is cut.
Result<std::string> first_of(std::vector<std::string> candidates, const std::string& what,
                             const std::string& advice) {
  const auto found = std::ranges::find_if(candidates, is_environment);
  if (found != candidates.end()) return *found;
  std::stable_partition(  // std::ranges' own is beyond clang 14, which compiles the fuzzers
      candidates.begin(), candidates.end(),
      [](const std::string& each) { return is_there(fs::path(each).parent_path()); });
  const std::size_t shown = std::min<std::size_t>(3, candidates.size());
  const auto more = std::to_string(candidates.size() - shown);
  candidates.resize(shown);
  return failure("there is no " + what + " with a bin/python; looked at " + joined(candidates) +
                 (more == "0" ? "" : " and " + more + " other places") + advice);
}

// Reads .condarc, whose envs_dirs are also called envs_path.
std::vector<std::string> envs_dirs(const std::string& text) {
  std::vector<std::string> found;
  const auto tree = config::parse_yaml(text);
  for (std::size_t i = 0; tree && i < tree->keys.size(); ++i)
    if (tree->keys[i].text == "envs_dirs" || tree->keys[i].text == "envs_path")
      for (const auto& item : tree->items[i].items) found.push_back(item.text);
  return found;
}

// Where conda, mamba and micromamba have the environments of a user, and those that the user made
// elsewhere, which conda lists.
std::vector<std::string> conda_places(const std::string& name, const Account& account,
                                      const Variables& given, const std::string& home) {
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
  std::vector<std::string> files{home + "/.condarc", home + "/.mambarc",
                                 home + "/.config/conda/.condarc"};
  for (const auto& root : roots) files.push_back(root + "/.condarc");
  std::map<std::string, std::string, std::less<>> known(given.begin(), given.end());
  known["HOME"] = home;
  const act::Environment variables(std::move(known));
  for (const auto& file : files)
    for (const auto& folder : envs_dirs(read_as(account, file)))
      places.push_back(absolute(act::expanded(variables, folder), home, home) + "/" + name);
  for (const auto& root : roots) places.push_back(name == "base" ? root : root + "/envs/" + name);
  for (const auto& each : fields(read_as(account, home + "/.conda/environments.txt"), '\n'))
    if (fs::path(each).filename() == name) places.push_back(each);
  return places;
}

// A folder of poetry's or pipenv's is NAME-HASH-py3.12, its hash of eight letters.
bool is_of_project(std::string_view folder, std::string_view name) {
  if (folder == name) return true;
  if (!folder.starts_with(name) || folder[name.size()] != '-') return false;
  const auto hash = folder.substr(name.size() + 1);
  return std::min(hash.rfind("-py"), hash.size()) <= 8;
}

// Folders of venv, virtualenvwrapper, pyenv and pipenv, and a project's as uv, pixi and poetry make
// them.
std::vector<std::string> venv_places(const std::string& name, const Variables& given,
                                     const std::string& home, const std::string& here) {
  const std::string path = absolute(name, home, here);
  std::vector<std::string> places{path, path + "/.venv", path + "/.pixi/envs/default"};
  if (name.find('/') != name.npos) return places;
  places.push_back(value_of(given, "PYENV_ROOT", home + "/.pyenv") + "/versions/" + name);
  places.push_back(value_of(given, "WORKON_HOME", home + "/.virtualenvs") + "/" + name);
  std::string project = lower_case(name);  // as poetry has it: My_Proj is my-proj
  for (char& each : project) each = each == '_' || each == '.' ? '-' : each;
  const std::string cache = value_of(given, "POETRY_CACHE_DIR", home + "/.cache/pypoetry");
  for (const std::string& folder :
       {value_of(given, "POETRY_VIRTUALENVS_PATH", cache + "/virtualenvs"),
        home + "/.local/share/virtualenvs"})
    for (const auto& each : names_in(folder, ""))
      if (is_of_project(each, name) || is_of_project(each, project))
        places.push_back(folder + "/" + each);
  return places;
}

// Upper case, and never PATH, as conda and mamba have them.
void add_variables(const Json& from, Variables& to) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  if (!from.is_object()) return;
  for (const auto& [key, value] : from.items()) {
    std::string name = key;
    std::ranges::transform(name, name.begin(), [](unsigned char each) { return toupper(each); });
    const bool good = !name.empty() && name.find_first_not_of(letters) == name.npos &&
                      isdigit(name[0]) == 0 && value.is_string() &&
                      value.get_ref<const std::string&>().find('\0') == name.npos;
    if (!good || name == "PATH") continue;
    to[name] = value;
    if (to[name] == "***unset***") to.erase(name);
  }
}

// What `conda activate` does in a shell that is in another environment, or in none: that one's
// scripts run, its bin leaves PATH, and CONDA_PREFIX_1 has it. The words are quoted.
std::string leave_conda(const std::string& root, const std::string& condabin) {
  return R"(if test "${CONDA_SHLVL:-0}" -gt 0 2>/dev/null && test -n "$CONDA_PREFIX"; then
while read -r spotter_script; do case $spotter_script in
*.sh) . "$CONDA_PREFIX/etc/conda/deactivate.d/$spotter_script" ;; esac; done <<END
$(ls -r "$CONDA_PREFIX/etc/conda/deactivate.d" 2>/dev/null)
END
PATH=":$PATH:"
case $PATH in *":$CONDA_PREFIX/bin:"*)
PATH=${PATH%%":$CONDA_PREFIX/bin:"*}:${PATH#*":$CONDA_PREFIX/bin:"} ;; esac
PATH=${PATH#:}
PATH=${PATH%:}
test "$CONDA_PREFIX" = )" +
         root + R"( ||
export "CONDA_PREFIX_$CONDA_SHLVL=$CONDA_PREFIX" CONDA_SHLVL=$((CONDA_SHLVL + 1))
else export CONDA_SHLVL=1 PATH=)" +
         condabin + "\"$PATH\"; fi\n";
}

// Its name as conda has it.
std::string conda_name(const std::string& root, bool is_base) {
  const fs::path path(root);
  if (path.parent_path().filename() == "envs") return path.filename();
  return is_base || is_there(root + "/bin/conda") ? "base" : root;
}

// Source: https://docs.conda.io/projects/conda/en/stable/dev-guide/deep-dives/activation.html
Found conda(const Spec& spec, std::string root, const Launch& launch) {
  Found found{.root = std::move(root)};
  const auto json = [&](const std::string& path) {
    return wire::parsed_json(read_as(launch.account, path));
  };
  const std::string of_packages = found.root + "/etc/conda/env_vars.d/";
  for (const auto& file : names_in(of_packages, ""))
    add_variables(json(of_packages + file), found.variables);
  if (const Json state = json(found.root + "/conda-meta/state"); state.is_object())
    add_variables(state.value("env_vars", Json()), found.variables);
  for (const auto& name : fields(spec.own, ' ')) found.variables.erase(name);
  const bool fish = launch.shell.ends_with("/fish");
  const std::string scripts = found.root + "/etc/conda/activate.d/";
  for (const auto& file : names_in(scripts, fish ? ".fish" : ".sh"))
    found.activate += ". " + wire::shell_quoted(scripts + file) + "\n";
  const std::string& kind = spec.environment_kind;
  const std::string name = conda_name(found.root, kind == "conda base" || kind == "venv base");
  found.variables["CONDA_PREFIX"] = found.root;
  found.variables["CONDA_DEFAULT_ENV"] = name;
  found.variables["CONDA_PROMPT_MODIFIER"] = "(" + name + ") ";
  const std::string base = found.root.substr(0, found.root.rfind("/envs/"));
  if (is_there(base + "/bin/conda")) {
    found.variables["CONDA_EXE"] = base + "/bin/conda";
    found.variables["CONDA_PYTHON_EXE"] = base + "/bin/python";
  }
  const std::string bin = base + "/condabin";
  if (fish)  // whose language is another
    found.variables["CONDA_SHLVL"] = "1";
  else
    found.leave = leave_conda(wire::shell_quoted(found.root),
                              is_there(bin) ? wire::shell_quoted(bin) + ":" : "");
  return found;
}

// What `conda activate` and `source bin/activate` would find.
Result<Found> find_environment(const Spec& spec, const Launch& launch) {
  const auto wanted = TRY(config::parse_python_environment(spec.environment_kind));
  const Kind kind = wanted.kind;
  const std::string& name = wanted.name;
  if (kind == Kind::None) return Found{};
  const std::string home = value_of(spec.environment, "HOME", launch.account.home);
  const std::string& here = launch.working_directory;
  // With a home in the job's storage: what an image has prepared is in the account's.
  const auto in_both = [&](auto places_in) {
    auto places = places_in(home);
    if (home == launch.account.home) return places;
    for (auto& each : places_in(launch.account.home))
      if (std::ranges::find(places, each) == places.end()) places.push_back(std::move(each));
    return places;
  };
  if (kind == Kind::Conda) {
    const std::string path = absolute(name, home, here);
    const bool is_path = name.find('/') != name.npos;
    auto root =
        TRY(first_of(is_path ? std::vector{path, path + "/.pixi/envs/default"}
                             : in_both([&](const std::string& its) {
                                 return conda_places(name, launch.account, spec.environment, its);
                               }),
                     "conda environment '" + name + "'", ""));
    return conda(spec, std::move(root), launch);
  }
  auto root = TRY(first_of(in_both([&](const std::string& its) {
                             return venv_places(name, spec.environment, its, here);
                           }),
                           "Python environment '" + name + "'",
                           "; make it: python3 -m venv " + absolute(name, home, here)));
  if (is_there(root + "/conda-meta")) return conda(spec, std::move(root), launch);
  const std::string script =
      root + "/bin/activate" + (launch.shell.ends_with("/fish") ? ".fish" : "");
  return Found{
      .root = root, .variables = {{"VIRTUAL_ENV", root}}, .script = is_there(script) ? script : ""};
}

// The environment is entered in the command, because a login shell's profile (as Debian's
// /etc/profile, or what `conda init` writes) replaces PATH, and may enter another one.
std::string command_line(const Spec& spec, const Found& found) {
  std::string line;
  const auto set = [&](const std::string& name, const std::string& value) {
    line += "export " + name + "=" + wire::shell_quoted(value) + "\n";
  };
  if (!found.root.empty()) line += "unset PYTHONHOME VIRTUAL_ENV\n";
  for (const char* name : {"PATH", "CONDA_PREFIX", "CONDA_SHLVL"})
    if (const auto given = spec.environment.find(name);
        given != spec.environment.end() &&
        (name == std::string_view("PATH") || !found.leave.empty()))
      set(name, given->second);
  // Before the rest, as the script of a folder that was moved names where it was made.
  if (!found.script.empty()) line += ". " + wire::shell_quoted(found.script) + "\n";
  line += found.leave;
  for (const auto& [name, value] : found.variables) set(name, value);
  if (!found.root.empty())
    line += "export PATH=" + wire::shell_quoted(found.root + "/bin") + ":\"$PATH\"\n";
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
  TRY(check(spec));
  return spec;
}

std::string to_json(const Spec& spec) {
  Json json = wire::object_of(spec);
  json["version"] = known_version;
  return wire::json_text(json);
}

Result<Launch> prepare(const Spec& spec) {
  auto account = TRY(find_user(spec.user));
  if (spec.refuse_administrators)
    if (const std::string right = administrators_right(spec.user); !right.empty())
      return failure("the user '" + spec.user + "' could become root (" + right +
                     "): " + std::string(instead_of_an_administrator));
  Launch launch{.account = std::move(account)};
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
  const auto found = TRY(find_environment(spec, launch));
  for (const auto& [name, value] : spec.environment) variables[name] = value;
  if (variables["HOME"] != launch.account.home)  // where `spotter tier copy` finds keys, too
    for (const auto& [name, file] : {std::pair{"AWS_CONFIG_FILE", "/.aws/config"},
                                     {"AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"}})
      if (const std::string path = launch.account.home + file; is_there(path))
        variables.insert({name, path});
  if (!found.root.empty()) variables["PATH"] = found.root + "/bin:" + variables["PATH"];
  for (const auto& [name, value] : variables) launch.environment.push_back(name + "=" + value);
  launch.arguments = {launch.shell, "-l", "-c", command_line(spec, found)};
  return launch;
}

}  // namespace spotter::supervise
