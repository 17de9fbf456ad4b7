#include "agent/supervise/launch.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "agent/base/shell.hpp"

namespace spotter::supervise {
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
  int count = 64;
  account.groups.resize(static_cast<std::size_t>(count));
  if (getgrouplist(name.c_str(), account.gid, account.groups.data(), &count) < 0) {
    account.groups.resize(static_cast<std::size_t>(count));
    if (getgrouplist(name.c_str(), account.gid, account.groups.data(), &count) < 0)
      return failure("the groups of user '" + name + "' cannot be read");
  }
  account.groups.resize(static_cast<std::size_t>(count));
  return account;
}

// A job may run as a system account, which has no login shell.
std::string login_shell(const Spec& spec, const Account& account) {
  if (!spec.shell.empty()) return spec.shell;
  const std::string_view shell = account.shell;
  const bool none = shell.empty() || shell.ends_with("/nologin") || shell.ends_with("/false");
  return none ? "/bin/sh" : account.shell;
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
