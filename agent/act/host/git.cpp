#include "agent/act/host/git.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "agent/io/files.hpp"

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
constexpr std::string_view plain = "http://";
constexpr std::string_view name_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

// A file that is in no directory, so that no kill leaves it behind.
Outcome<Fd> memory_file(const std::string& text) {
  Fd file(::memfd_create("gitconfig", MFD_CLOEXEC));
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

bool is_all_of(std::string_view text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == text.npos;
}

// No letter of it means something to git's comparison of addresses, such as `*`.
bool is_host(std::string_view host) {
  constexpr std::string_view digits = "0123456789";
  constexpr std::string_view address = "0123456789abcdefABCDEF:.";
  const bool bracketed = host.starts_with('[');
  const auto colon = host.find(':', bracketed ? host.find(']') : 0);
  if (colon != host.npos) {
    if (!is_all_of(host.substr(colon + 1), digits)) return false;
    host = host.substr(0, colon);
  }
  if (!bracketed) return is_all_of(host, name_letters);
  return host.ends_with(']') && is_all_of(host.substr(1, host.size() - 2), address);
}

bool is_this_machine(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"})
    if (host == name || (host.starts_with(name) && host[name.size()] == ':')) return true;
  return false;
}

}  // namespace

Outcome<std::string> token_server(const std::string& url) {
  const bool safe = url.starts_with(tls);
  if (!safe && !url.starts_with(plain)) return std::string();
  const std::string scheme(safe ? tls : plain);
  std::string host = url.substr(scheme.size());
  host = host.substr(0, host.find_first_of("/?#"));
  // Whoever reads addresses otherwise than git does must not find another server in them.
  const auto at = host.find('@');
  const bool plain_user = at == host.npos || at == 0 || is_all_of(host.substr(0, at), name_letters);
  if (at != host.npos) host.erase(0, at + 1);
  if (!plain_user || !is_host(host))
    return fail("code-denied", "code.repository names no server: " + url);
  if (!safe && !is_this_machine(host))
    return fail("code-denied", "code.token is sent over TLS alone, and code.repository is " + url +
                                   ": does the server have an https:// address?");
  return scheme + host;
}

Outcome<Git> Git::as(User user) {
  auto config = memory_file(global_config);
  if (!config) return tl::unexpected<Failure>(config.error());
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

Outcome<ToolResult> Git::run(const GitPlace& place, std::vector<std::string> arguments,
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

Outcome<void> make_git_directory(const fs::path& directory) {
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
