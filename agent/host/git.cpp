#include "agent/host/git.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "agent/base/text.hpp"
#include "agent/config/git_server.hpp"
#include "agent/supervise/processes.hpp"

namespace spotter::act::host {
namespace {

constexpr const char* prefix = "spotter-private-";
constexpr uid_t first_user = 61184;
constexpr uid_t last_user = 65519;

fs::path temporary_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named == '/' ? named : "/var/tmp";
}

io::Descriptor open_folder(const fs::path& path) {
  return io::Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_private(const struct stat& folder) {
  if (::geteuid() != 0) return folder.st_uid == ::geteuid();
  return folder.st_uid >= first_user && folder.st_uid <= last_user;
}

void remove_tree(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);  // follows no link
}

// A folder that is being made is still root's.
void remove_left_over(const fs::path& place) {
  std::error_code error;
  for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(prefix)) continue;
    const io::Descriptor folder = open_folder(at->path());
    struct stat status {};
    if (folder && ::fstat(folder.get(), &status) == 0 && is_private(status) &&
        ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0)
      remove_tree(at->path());
  }
}

// The owners of all processes. A unit with DynamicUser= has a number of this range while it runs,
// which only systemd's own module of the name service has an account for.
std::set<uid_t> users_at_work() {
  std::set<uid_t> users;
  for (const supervise::Process& each : supervise::all_processes()) {
    struct stat status {};
    if (::lstat(("/proc/" + std::to_string(each.pid)).c_str(), &status) == 0)
      users.insert(status.st_uid);
  }
  return users;
}

// A number that is no account's, no group's and no process's: whoever had it could read the token.
// Begins with one that `seed` chooses, as others look for one at the same time.
std::optional<uid_t> free_user(uid_t seed) {
  constexpr uid_t numbers = last_user - first_user + 1;
  const std::set<uid_t> taken = users_at_work();
  for (uid_t i = 0; i < numbers; ++i) {
    const uid_t number = first_user + (seed + i) % numbers;
    if (!taken.contains(number) && ::getpwuid(number) == nullptr && ::getgrgid(number) == nullptr)
      return number;
  }
  return std::nullopt;
}

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
// environment. The user is that of the URL (a deploy token of GitLab has one), else one that the
// server takes.
constexpr const char* credential_helper =
    "!f() { test \"$1\" = get || return 0; user=$SPOTTER_GIT_USER; "
    "while read -r line; do case $line in username=*) user=${line#username=};; esac; done; "
    "printf 'username=%s\\npassword=%s\\n' \"$user\" \"$SPOTTER_GIT_TOKEN\"; }; f";

constexpr const char* proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY",
                                   "no_proxy",   "NO_PROXY",    "ALL_PROXY"};
constexpr const char* certificates[] = {"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"};

// A file that is in no directory, so that no kill leaves it behind.
Result<io::Descriptor> memory_file(const std::string& text) {
  io::Descriptor file(::memfd_create("gitconfig", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail_errno(errno, "cannot make git's configuration");
  }
  ::fchmod(file.get(), 0444);
  return file;
}

// With the key alone, and host keys that somebody vouches for: nobody is here to be asked.
std::string ssh_with_key(const fs::path& directory) {
  const auto option = [&](const char* name, const fs::path& file) {
    return " -o" + wire::shell_quoted(std::string(name) + "=\"" + file.string() + "\"");
  };
  return "ssh -F /dev/null -oBatchMode=yes -oStrictHostKeyChecking=yes -oIdentitiesOnly=yes "
         "-oIdentityAgent=none -oConnectTimeout=30" +
         option("IdentityFile", directory / "key") +
         option("UserKnownHostsFile", directory / "known_hosts");
}

template <std::size_t N>
void pass_on(const char* const (&names)[N], std::map<std::string, std::string>& to) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) to[name] = value;
}

}  // namespace

PrivateFolder::PrivateFolder(fs::path path, io::Descriptor lock, User user)
    : path_(std::move(path)), lock_(std::move(lock)), user_(std::move(user)) {}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      lock_(std::move(other.lock_)),
      user_(std::move(other.user_)) {}

PrivateFolder::~PrivateFolder() {
  if (!path_.empty()) remove_tree(path_);
}

Result<PrivateFolder> PrivateFolder::make() {
  const fs::path place = temporary_folder();
  remove_left_over(place);
  std::string path = (place / prefix).string() + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return fail_errno(errno, "cannot make a folder in " + place.string());
  const bool root = ::geteuid() == 0;
  const std::optional<uid_t> number =
      root ? free_user(static_cast<uid_t>(::getpid())) : ::geteuid();
  if (!number)
    return fail("host-error", "every number from " + std::to_string(first_user) + " to " +
                                  std::to_string(last_user) +
                                  " is in use by an account or a process: git with a token needs "
                                  "one that is nobody's");
  const User user{"spotter-private", *number, root ? *number : ::getegid(), path, {}};
  PrivateFolder made(path, open_folder(path), user);
  if (!made.lock_ || ::flock(made.lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      (root && ::fchown(made.lock_.get(), user.uid, user.gid) != 0))
    return fail_errno(errno, "cannot make " + path + " private");
  return made;
}

Result<void> PrivateFolder::show(const User& reader) const {
  if (::geteuid() != 0) return {};  // it is the reader's own
  if (::fchown(lock_.get(), static_cast<uid_t>(-1), reader.gid) != 0 ||
      ::fchmod(lock_.get(), 0750) != 0)
    return fail_errno(errno, "cannot open " + path_.string() + " to " + reader.name);
  return {};
}

Result<std::string> token_server(const std::string& url) {
  auto server = wire::token_server(url);
  if (!server) return fail("code-denied", "code.repository: " + server.error().message);
  return *std::move(server);
}

Result<Git> Git::as(User user) {
  auto config = TRY(memory_file(global_config));
  return Git(std::move(user), std::move(config));
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
  // Unencrypted traffic with the token must not go through a proxy.
  const bool leaves = token.value.empty() || !token.server.starts_with("http:");
  if (leaves) pass_on(proxies, result);
  if (token.value.empty()) return result;
  if (token.server.empty()) {
    result["GIT_SSH_COMMAND"] = ssh_with_key(place.directory);
    result["GIT_ALLOW_PROTOCOL"] = "ssh";
    return result;
  }
  result["SPOTTER_GIT_TOKEN"] = token.value;
  result["SPOTTER_GIT_USER"] = token.user;
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
    TRY(or_fail(io::atomic_write(directory / name, text, 0644),
                "cannot write in " + directory.string()));
  return {};
}

}  // namespace spotter::act::host
