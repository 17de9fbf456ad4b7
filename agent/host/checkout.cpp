#include "agent/host/checkout.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/config/git_server.hpp"
#include "agent/config/job.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/files.hpp"
#include "agent/io/safe_directory.hpp"
#include "agent/supervise/processes.hpp"
#include "agent/tier/home.hpp"
#include "agent/wire/status.hpp"

namespace spotter::act::host {
namespace {

// A folder of a user that nobody else is: for work with a secret, where no process and no file of
// the trainer's user is in reach.

// Exists as long as this object does; the next process removes what a killed one left behind. Its
// user is a number without an account, of the range that systemd has for DynamicUser=: it has no
// rights, and nobody else can trace its processes or read their environment. Without root's rights
// it is our own user. https://systemd.io/UIDS-GIDS/
class PrivateFolder {
 public:
  // Below $TMPDIR, else /var/tmp. Kinds: those of fail_errno().
  static Result<PrivateFolder> make();
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }
  const User& user() const { return user_; }

  // From now on others may read it, and still change nothing.
  Result<void> show() const;

 private:
  PrivateFolder(std::filesystem::path path, io::Descriptor lock, User user);

  std::filesystem::path path_;
  io::Descriptor lock_;  // advisory, of the folder: it is in use
  User user_;
};

namespace fs = std::filesystem;

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

PrivateFolder::PrivateFolder(fs::path path, io::Descriptor lock, User user)
    : path_(std::move(path)), lock_(std::move(lock)), user_(std::move(user)) {}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      lock_(std::move(other.lock_)),
      user_(std::move(other.user_)) {}

PrivateFolder::~PrivateFolder() {
  if (!path_.empty()) remove_tree(path_);
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

Result<void> PrivateFolder::show() const {
  if (::fchmod(lock_.get(), 0755) != 0)
    return fail_errno(errno, "cannot open " + path_.string() + " to others");
  return {};
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
// environment. The user is that of the URL (a deploy token of GitLab has one), else one that any
// server takes: Bitbucket wants its own word.
constexpr const char* credential_helper =
    "!f() { test \"$1\" = get || return 0; user=x-access-token; "
    "while read -r line; do case $line in "
    "host=bitbucket.org) user=x-token-auth;; esac; "
    "case $line in username=*) user=${line#username=};; esac; done; "
    "printf 'username=%s\\npassword=%s\\n' \"$user\" \"$SPOTTER_GIT_TOKEN\"; }; f";

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

std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t end = 0; (end = text.find('\0')) != text.npos; text.remove_prefix(end + 1))
    names.emplace_back(text.substr(0, end));
  return names;
}

bool is_pointer(const fs::path& file) {
  constexpr std::string_view begins = "version https://git-lfs.github.com/spec/";
  constexpr off_t most = 1024;
  const io::Descriptor opened(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  std::array<char, begins.size()> start{};
  return opened && ::fstat(opened.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_size < most &&
         ::read(opened.get(), start.data(), start.size()) == static_cast<ssize_t>(start.size()) &&
         std::string_view(start.data(), start.size()) == begins;
}

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
  // Unencrypted traffic with the token must not go through a proxy.
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

namespace {

// The trainer's user's own files, done as that user; of its repository what configures git is not
// read: GIT_DIR is a folder below it that is made again.
struct Place {
  explicit Place(const fs::path& directory)
      : repository(directory / ".git"),
        git{.directory = repository / "spotter",
            .objects = repository / "objects",
            .index = repository / "index",
            .work_tree = directory} {}

  fs::path repository;
  GitPlace git;
};

bool says(const ToolResult& result, std::initializer_list<const char*> phrases) {
  return std::any_of(phrases.begin(), phrases.end(), [&result](const char* phrase) {
    return result.errors.find(phrase) != std::string::npos;
  });
}

tl::unexpected<Error> git_failure(const ToolResult& result, const verbs::Checkout& request) {
  const auto words = last_words(result);
  if (says(result, {"No space left on device", "Disk quota exceeded"})) {
    return fail("storage-full", "no room for the code in " + request.directory + ": " + words);
  }
  if (says(result, {"requested URL returned error: 30"})) {
    return fail("code-denied", request.repository +
                                   " redirects, and code.token is for that server alone: name the "
                                   "address where the repository is (its end may be .git)");
  }
  if (says(result, {"Authentication failed", "could not read Username", "could not read Password",
                    "Permission denied (", "The requested URL returned error: 403",
                    "The requested URL returned error: 401", "HTTP Basic: Access denied"})) {
    return fail("code-denied",
                request.repository + " refuses us: " + words + "; check code.token in job.yaml");
  }
  if (says(result, {"not our ref", "couldn't find remote ref", "bad object"})) {
    return fail("revision-missing", "commit " + request.revision + " is not in " +
                                        request.repository + "; was it pushed, or rewritten?");
  }
  if (says(result, {"unable to access", "Could not read from remote", "does not appear to be a git",
                    "not found", "unable to connect", "does not exist", "Could not resolve host",
                    "unable to look up", "hung up", "early EOF", "RPC failed", "not supported",
                    "not allowed"})) {
    return fail("code-unreachable",
                "cannot fetch from " + request.repository + ": " + words +
                    "; (a private repository without a valid token looks like this, too)");
  }
  return fail("code-failed", "git failed for " + request.repository + ": " + words);
}

Result<void> check(const verbs::Checkout& request) {
  const auto& revision = request.revision;
  const bool hex =
      revision.size() == 40 && std::all_of(revision.begin(), revision.end(), [](unsigned char c) {
        return std::isdigit(c) || (c >= 'a' && c <= 'f');
      });
  if (!hex)
    return fail("bad-request", "code.revision is a full commit id of 40 lower-case hex digits");
  if (request.repository.empty() || request.repository.front() == '-') {
    return fail("bad-request", "code.repository is not a git URL or path");
  }
  const auto scheme = request.repository.find("://");
  if (scheme != std::string::npos) {
    const auto authority = request.repository.substr(
        scheme + 3, request.repository.find('/', scheme + 3) - scheme - 3);
    const auto at = authority.rfind('@');
    if (at != std::string::npos && authority.substr(0, at).find(':') != std::string::npos) {
      return fail("bad-request", "code.repository has a password in it; use code.token instead");
    }
  }
  if (!fs::path(request.directory).is_absolute())
    return fail("bad-request", "the directory must be absolute");
  return {};
}

// Works as the user alone, who may have put a link in the place of what is above it: if the user
// cannot make it, whoever mounted the storage has.
Result<void> ensure_directory(const fs::path& directory, const User& user) {
  const AsUser as_user(user);
  const auto above = io::SafeDirectory::open(directory.parent_path());
  const auto made = above ? above->make_folder(directory.filename(), 0755)
                          : tl::unexpected<std::error_code>(above.error());
  if (!made) return fail_errno(made.error(), "cannot make " + directory.string());
  return {};
}

// The user's repository, and ours below it, without what a killed git left behind: nobody else runs
// one.
Result<void> prepare(const User& user, const Place& place) {
  const AsUser as_user(user);
  std::error_code error;
  for (const auto& directory : {place.repository, place.git.objects})
    if (!fs::is_directory(fs::symlink_status(directory, error)))
      fs::remove_all(place.repository, error);
  const bool made = ::mkdir(place.repository.c_str(), 0755) == 0;
  if (!made && errno != EEXIST)
    return fail_errno(errno, "cannot make " + place.repository.string(), "code-failed");
  fs::remove_all(place.git.directory, error);
  ::unlink((place.repository / "index.lock").c_str());
  for (const auto& directory : {place.repository, place.git.directory}) {
    if (directory == place.repository && !made) continue;
    if (directory != place.repository && ::mkdir(directory.c_str(), 0755) != 0)
      return fail_errno(errno, "cannot make " + directory.string(), "code-failed");
    if (auto ready = make_git_directory(directory); !ready)
      return fail(ready.error().kind == "host-error" ? "code-failed" : ready.error().kind,
                  ready.error().message);
  }
  return {};
}

Result<bool> has_revision(const Git& git, const Place& place, const std::string& revision) {
  const auto result = git.run(place.git, {"cat-file", "-e", revision + "^{commit}"});
  if (!result) return tl::unexpected<Error>(result.error());
  return result->status == 0;
}

// Just the commit; where the server does not serve one by its id, everything.
Result<void> fetch(const Git& git, const GitPlace& to, const std::string& from,
                   const verbs::Checkout& request, const GitToken& token = {}) {
  const auto one = git.run(to,
                           {"fetch", "--quiet", "--no-tags", "--depth=1", "--no-write-fetch-head",
                            "--", from, request.revision},
                           token);
  if (!one) return tl::unexpected<Error>(one.error());
  if (one->status == 0) return {};
  const auto why = git_failure(*one, request);
  if (why.value().kind != "revision-missing" && why.value().kind != "code-failed" &&
      !says(*one, {"Server does not allow request for unadvertised object"})) {
    return why;
  }
  const auto all = git.run(to,
                           {"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", from,
                            "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"},
                           token);
  if (!all) return tl::unexpected<Error>(all.error());
  if (all->status != 0) return git_failure(*all, request);
  return {};
}

// With the token in reach nothing of the trainer's is read, and none of its processes can look on;
// what came with it is then fetched from there.
Result<void> fetch_by_token(const Git& git, const Place& place, const verbs::Checkout& request,
                            const GitToken& token) {
  const auto folder = PrivateFolder::make();
  if (!folder) return tl::unexpected<Error>(folder.error());
  const auto stranger = Git::as(folder->user());
  if (!stranger) return tl::unexpected<Error>(stranger.error());
  const GitPlace private_place{.directory = folder->path()};
  {
    const AsUser as_stranger(folder->user());
    if (auto made = make_git_directory(folder->path()); !made) return made;
  }
  if (auto got = fetch(*stranger, private_place, request.repository, request, token); !got)
    return got;
  if (auto shown = folder->show(); !shown) return shown;
  return fetch(git, place.git, folder->path(), request);
}

// Into a folder that only root and nobody's user can change, from which git takes it as the
// trainer's.
Result<void> fetch_archive(const Git& git, const Place& place, const verbs::Checkout& request) {
  const auto at = wire::parse_s3_url(request.repository);
  if (!at) return fail("bad-request", at.error().message);
  bucket::Bucket bucket(*at, "", {.environment = Environment::of_this_process()});
  const auto manifest = bucket.read(bucket::manifest_name(request.revision));
  if (!manifest) return fail("code-unreachable", manifest.error().message);
  if (!*manifest || !(*manifest)->files.contains(config::code_bundle))
    return fail("revision-missing", "the code " + request.revision + " is not in " +
                                        request.repository + ": `spotter launch` puts it there");
  const auto folder = PrivateFolder::make();
  if (!folder) return tl::unexpected<Error>(folder.error());
  const auto to = io::SafeDirectory::open(folder->path());
  if (!to) return fail_errno(to.error(), "cannot use " + folder->path().string());
  const auto& bundle = *(*manifest)->files.find(config::code_bundle);
  const auto fetched = tier::fetch_files(bucket, {&bundle}, *to, "coming");
  if (!fetched) return fail("code-unreachable", fetched.error().message);
  if (!fetched->torn.empty())
    return fail("code-unreachable", bucket.shown(bundle.second.key()) +
                                        " is not whole: " + fetched->torn.begin()->second);
  if (auto shown = folder->show(); !shown) return shown;
  const auto unpacked = git.run(
      place.git, {"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--",
                  folder->path() / config::code_bundle, "+refs/heads/*:refs/remotes/spotter/*"});
  if (!unpacked) return tl::unexpected<Error>(unpacked.error());
  if (unpacked->status != 0) return git_failure(*unpacked, request);
  return {};
}

bool is_archive(const verbs::Checkout& request) { return request.repository.starts_with("s3://"); }

Result<void> fetch(const Git& git, const Place& place, const verbs::Checkout& request) {
  if (is_archive(request)) return fetch_archive(git, place, request);
  const auto server = token_server(request.repository);
  if (request.token.empty() || (server && server->empty()))
    return fetch(git, place.git, request.repository, request);
  if (!server) return tl::unexpected<Error>(server.error());
  return fetch_by_token(git, place, request, {request.token, *server});
}

// An archive's files become what they were.
Result<void> take_as_it_is(const Git& git, const Place& place) {
  const AsUser as_user(git.user());
  const auto info = place.git.directory / "info";
  if (::mkdir(info.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno(errno, "cannot make " + info.string(), "code-failed");
  const auto written =
      io::atomic_write(info / "attributes", std::string(config::code_as_it_is), 0644);
  if (!written)
    return fail_errno(written.error(), "cannot write in " + info.string(), "code-failed");
  return {};
}

Result<void> put_in_place(const Git& git, const Place& place, const verbs::Checkout& request) {
  if (is_archive(request))
    if (auto taken = take_as_it_is(git, place); !taken) return taken;
  const auto placed =
      git.run(place.git, {"checkout", "--quiet", "--force", "--detach", request.revision});
  if (!placed) return tl::unexpected<Error>(placed.error());
  if (placed->status != 0) return git_failure(*placed, request);
  const auto head = git.run(place.git, {"rev-parse", "--verify", "HEAD"});
  if (!head) return tl::unexpected<Error>(head.error());
  if (head->output.substr(0, 40) != request.revision) {
    return fail("code-failed", "after the checkout HEAD is not " + request.revision);
  }
  return {};
}

// Shows the user's own git where HEAD is, and which commits have no parents here.
Result<void> show_to_user(const User& user, const Place& place, const verbs::Checkout& request,
                          bool fetched) {
  const AsUser as_user(user);
  const auto shallow = place.repository / "shallow";
  if (fetched && ::rename((place.git.directory / "shallow").c_str(), shallow.c_str()) != 0)
    ::unlink(shallow.c_str());  // all of the history came
  const auto written = io::atomic_write(place.repository / "HEAD", request.revision + "\n", 0644);
  std::error_code ignored;
  fs::remove_all(place.git.directory, ignored);
  if (!written)
    return fail_errno(written.error(), "cannot write in " + place.repository.string(),
                      "code-failed");
  return {};
}

// "a.pt, b.pt, ..."
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (text.empty() ? "" : ", ") + wire::printable(names[i]);
  return " (" + text + (names.size() > most ? ", ...)" : ")");
}

// git's filter of LFS and its submodules would run what the repository names, and ask servers that
// the token is not for.
std::string left_out(const Git& git, const Place& place) {
  std::vector<std::string> pointers;
  std::vector<std::string> submodules;
  const auto large = git.run(place.git, {"ls-files", "-z", "--", ":(attr:filter=lfs)"});
  if (large && large->status == 0)
    for (auto& name : names_in(large->output)) {
      const AsUser as_user(git.user());
      if (is_pointer(place.git.work_tree / name)) pointers.push_back(std::move(name));
    }
  const auto inner = git.run(place.git, {"config", "-z", "--blob", "HEAD:.gitmodules",
                                         "--get-regexp", "^submodule\\..*\\.path$"});
  if (inner && inner->status == 0)
    for (const auto& each : names_in(inner->output))
      submodules.push_back(each.substr(each.find('\n') + 1));
  std::string text;
  if (!pointers.empty())
    text = "pointers of Git LFS stand in the place of " + std::to_string(pointers.size()) +
           (pointers.size() == 1 ? " file" : " files") + some_of(pointers);
  if (!submodules.empty())
    text += (text.empty() ? "" : ", and ") + std::to_string(submodules.size()) +
            (submodules.size() == 1 ? " submodule is an empty folder"
                                    : " submodules are empty folders") +
            some_of(submodules);
  if (text.empty()) return {};
  return text + ": Spotter fetches neither; let trainer.command do it, or bring them as a channel";
}

Result<CheckedOut> once(const Git& git, const verbs::Checkout& request) {
  const Place place(request.directory);
  if (const auto ready = prepare(git.user(), place); !ready)
    return tl::unexpected<Error>(ready.error());
  const auto there = has_revision(git, place, request.revision);
  if (!there) return tl::unexpected<Error>(there.error());
  if (!*there) {
    if (const auto got = fetch(git, place, request); !got)
      return tl::unexpected<Error>(got.error());
    const auto came = has_revision(git, place, request.revision);
    if (!came) return tl::unexpected<Error>(came.error());
    if (!*came)
      return fail("revision-missing", "commit " + request.revision + " is not in " +
                                          request.repository + "; was it pushed, or rewritten?");
  }
  if (const auto placed = put_in_place(git, place, request); !placed)
    return tl::unexpected<Error>(placed.error());
  std::string missing = left_out(git, place);
  if (const auto shown = show_to_user(git.user(), place, request, !*there); !shown)
    return tl::unexpected<Error>(shown.error());
  return CheckedOut{!*there, std::move(missing)};
}

class UsualModes {
 public:
  UsualModes() : before_(io::take_usual_umask()) {}
  UsualModes(const UsualModes&) = delete;
  UsualModes& operator=(const UsualModes&) = delete;
  ~UsualModes() { ::umask(before_); }

 private:
  mode_t before_;
};

}  // namespace

Result<CheckedOut> checkout(const verbs::Checkout& request) {
  if (const auto good = check(request); !good) return tl::unexpected<Error>(good.error());
  const UsualModes modes;
  auto user = find_user(request.user);
  if (!user) return tl::unexpected<Error>(user.error());
  if (const auto made = ensure_directory(request.directory, *user); !made) {
    return tl::unexpected<Error>(made.error());
  }
  const auto git = Git::as(std::move(*user));
  if (!git) return tl::unexpected<Error>(git.error());
  auto result = once(*git, request);
  if (result || result.error().kind != "code-failed") return result;
  // A repository that a power cut damaged: a fresh one in its place; the work tree, with its
  // caches, stays.
  {
    const AsUser as_user(git->user());
    std::error_code error;
    fs::remove_all(fs::path(request.directory) / ".git", error);
    if (error) return result;
  }
  return once(*git, request);
}

}  // namespace spotter::act::host
