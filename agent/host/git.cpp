#include "agent/host/git.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "agent/io/files.hpp"
#include "agent/job/git_server.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* repository_config =
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";

// Read as the user's global configuration. safe.directory counts only there, and `git upload-pack`
// of a local repository, which checks it, inherits a file but no -c. `*` is right: job.yaml named
// the repository, and nothing of its configuration runs code in upload-pack.
// https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory
constexpr const char* global_config =
    "[safe]\n\tdirectory = *\n"
    "[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tlogAllRefUpdates = false\n"
    "[submodule]\n\trecurse = false\n"
    "[fetch]\n\trecurseSubmodules = false\n"
    "[uploadpack]\n\tallowAnySHA1InWant = true\n"
    "[protocol \"ext\"]\n\tallow = never\n"
    "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    "[advice]\n\tdetachedHead = false\n"
    "[http]\n\tlowSpeedLimit = 1000\n\tlowSpeedTime = 60\n";

// The token's name, never its value: git runs this through sh, which takes the value from its
// environment.
constexpr const char* credential_helper =
    "!f() { test \"$1\" = get && printf 'username=x-access-token\\npassword=%s\\n' "
    "\"$SPOTTER_GIT_TOKEN\"; }; f";

constexpr const char* proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY",
                                   "no_proxy",   "NO_PROXY",    "ALL_PROXY"};
constexpr const char* certificates[] = {"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"};

constexpr std::string_view tls = "https://";

// A file that is in no directory, so that no kill leaves it behind.
Result<io::Descriptor> memory_file(const std::string& text) {
  io::Descriptor file(::memfd_create("gitconfig", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail_errno(errno, "cannot make git's configuration");
  }
  ::fchmod(file.get(), 0444);
  return file;
}

template <std::size_t N>
void pass_on(const char* const (&names)[N], std::map<std::string, std::string>& to) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) to[name] = value;
}

}  // namespace

Result<std::string> token_server(const std::string& url) {
  auto server = wire::token_server(url);
  if (!server) return fail("code-denied", "code.repository: " + server.error().message);
  return *std::move(server);
}

Result<Git> Git::as(User user) {
  auto config = memory_file(global_config);
  if (!config) return tl::unexpected<Error>(config.error());
  return Git(std::move(user), std::move(*config));
}

std::map<std::string, std::string> Git::environment(const GitPlace& place,
                                                    const GitToken& token) const {
  std::map<std::string, std::string> result{
      {"HOME", token.value.empty() ? user_.home : place.directory.string()},
      {"USER", user_.name},
      {"LOGNAME", user_.name},
      {"LC_ALL", "C"},
      {"GIT_DIR", place.directory.string()},
      {"GIT_TERMINAL_PROMPT", "0"},
      {"GIT_CONFIG_NOSYSTEM", "1"},
      {"GIT_ATTR_NOSYSTEM", "1"},
      {"GIT_CONFIG_GLOBAL", "/proc/self/fd/" + std::to_string(config_.get())},
      {"GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"},
      {"GIT_SSH_COMMAND", "ssh -oBatchMode=yes"},
  };
  if (!place.objects.empty()) result["GIT_OBJECT_DIRECTORY"] = place.objects;
  if (!place.index.empty()) result["GIT_INDEX_FILE"] = place.index;
  if (!place.work_tree.empty()) result["GIT_WORK_TREE"] = place.work_tree;
  pass_on(certificates, result);
  // What is not encrypted does not leave this machine by a proxy.
  const bool leaves = token.value.empty() || token.server.starts_with(tls);
  if (leaves) pass_on(proxies, result);
  if (token.value.empty()) return result;
  result["SPOTTER_GIT_TOKEN"] = token.value;
  result["GIT_ALLOW_PROTOCOL"] = token.server.substr(0, token.server.find(':'));
  const std::array<std::pair<std::string, std::string>, 2> settings{
      {{"credential." + token.server + ".helper", credential_helper},
       {"http.followRedirects", "false"}}};
  result["GIT_CONFIG_COUNT"] = std::to_string(settings.size());
  for (std::size_t i = 0; i < settings.size(); ++i) {
    result["GIT_CONFIG_KEY_" + std::to_string(i)] = settings[i].first;
    result["GIT_CONFIG_VALUE_" + std::to_string(i)] = settings[i].second;
  }
  return result;
}

Result<ToolResult> Git::run(const GitPlace& place, std::vector<std::string> arguments,
                            const GitToken& token) const {
  const auto& where = place.work_tree.empty() ? place.directory : place.work_tree;
  std::vector<std::string> argv{"git", "-C", where.string()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const ToolRequest request{.argv = std::move(argv),
                            .environment = environment(place, token),
                            .user = user_,
                            .inherited_fd = config_.get()};
  return run_tool(request, "git");
}

Result<void> make_git_directory(const fs::path& directory) {
  for (const char* name : {"objects", "refs"})
    if (::mkdir((directory / name).c_str(), 0755) != 0 && errno != EEXIST)
      return fail_errno(errno, "cannot make " + (directory / name).string());
  const std::pair<const char*, const char*> files[] = {{"config", repository_config},
                                                       {"HEAD", "ref: refs/heads/spotter\n"}};
  for (const auto& [name, text] : files)
    if (const auto written = io::atomic_write(directory / name, text, 0644); !written)
      return fail_errno(written.error(), "cannot write in " + directory.string());
  return {};
}

}  // namespace spotter::act::host
