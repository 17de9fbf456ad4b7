#include "agent/act/host/checkout.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/act/host/fd.hpp"
#include "agent/act/host/tool.hpp"
#include "agent/act/host/user.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

// Ours alone: what a trainer wrote into .git/config (an fsmonitor, a credential helper, a proxy)
// would otherwise run, or see the token, at the next start.
constexpr const char* repository_config =
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";

// Read as the user's global configuration. safe.directory counts only there, and `git upload-pack`
// of a local repository, which checks it, inherits a file but no -c. `*` is right: job.yaml named
// the repository, and nothing of its configuration runs code in upload-pack.
// https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory
constexpr const char* global_config =
    "[safe]\n\tdirectory = *\n"
    "[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n"
    "[submodule]\n\trecurse = false\n"
    "[fetch]\n\trecurseSubmodules = false\n"
    "[protocol \"ext\"]\n\tallow = never\n"
    "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    "[advice]\n\tdetachedHead = false\n"
    "[http]\n\tlowSpeedLimit = 1000\n\tlowSpeedTime = 60\n";

// The token's name, never its value: git runs this through sh, which takes the value from its
// environment.
constexpr const char* credential_helper =
    "!f() { test \"$1\" = get && printf 'username=x-access-token\\npassword=%s\\n' "
    "\"$SPOTTER_GIT_TOKEN\"; }; f";

constexpr const char* passed_on[] = {"http_proxy",    "https_proxy",  "HTTPS_PROXY",
                                     "no_proxy",      "NO_PROXY",     "ALL_PROXY",
                                     "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"};

class Git {
 public:
  Git(const CheckoutRequest& request, User user, Fd config)
      : request_(request), user_(std::move(user)), config_(std::move(config)) {}

  const User& user() const { return user_; }

  Outcome<ToolResult> run(std::vector<std::string> arguments, bool with_token = false) const {
    std::vector<std::string> argv{"git", "-C", request_.directory.string()};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const ToolRequest request{.argv = std::move(argv),
                              .environment = environment(with_token),
                              .user = user_,
                              .inherited_fd = config_.get()};
    return run_tool(request, "git");
  }

 private:
  std::map<std::string, std::string> environment(bool with_token) const {
    std::map<std::string, std::string> result{
        {"HOME", user_.home},
        {"USER", user_.name},
        {"LOGNAME", user_.name},
        {"LC_ALL", "C"},
        {"GIT_TERMINAL_PROMPT", "0"},
        {"GIT_CONFIG_NOSYSTEM", "1"},
        {"GIT_ATTR_NOSYSTEM", "1"},
        {"GIT_CONFIG_GLOBAL", "/proc/self/fd/" + std::to_string(config_.get())},
        {"GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"},
        {"GIT_SSH_COMMAND", "ssh -oBatchMode=yes"},
        // The directory is the repository; never a parent of it.
        {"GIT_CEILING_DIRECTORIES", request_.directory.parent_path().string()},
    };
    for (const char* name : passed_on) {
      if (const char* value = std::getenv(name)) result[name] = value;
    }
    if (with_token && !request_.token.empty()) {
      result["SPOTTER_GIT_TOKEN"] = request_.token;
      result["GIT_CONFIG_COUNT"] = "2";  // an empty helper first: no other is asked
      result["GIT_CONFIG_KEY_0"] = result["GIT_CONFIG_KEY_1"] = "credential.helper";
      result["GIT_CONFIG_VALUE_0"] = "";
      result["GIT_CONFIG_VALUE_1"] = credential_helper;
    }
    return result;
  }

  const CheckoutRequest& request_;
  User user_;
  Fd config_;
};

// A file that is in no directory, so that no kill leaves it behind.
Outcome<Fd> memory_file(const std::string& text) {
  Fd file(::memfd_create("gitconfig", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail_errno(errno, "cannot make git's configuration");
  }
  ::fchmod(file.get(), 0444);
  return file;
}

bool says(const ToolResult& result, std::initializer_list<const char*> phrases) {
  return std::any_of(phrases.begin(), phrases.end(), [&result](const char* phrase) {
    return result.errors.find(phrase) != std::string::npos;
  });
}

tl::unexpected<Failure> git_failure(const ToolResult& result, const CheckoutRequest& request) {
  const auto words = last_words(result);
  if (says(result, {"No space left on device", "Disk quota exceeded"})) {
    return fail("storage-full",
                "no room for the code in " + request.directory.string() + ": " + words);
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

Outcome<void> check(const CheckoutRequest& request) {
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
  if (!request.directory.is_absolute())
    return fail("bad-request", "the directory must be absolute");
  return {};
}

// The user's directory; made by us only where the user could not (a parent of root's).
Outcome<void> ensure_directory(const fs::path& directory, const User& user) {
  if (::mkdir(directory.c_str(), 0755) == 0) {
    if (::geteuid() == 0 && ::lchown(directory.c_str(), user.uid, user.gid) != 0) {
      return fail_errno(errno, "cannot give " + directory.string() + " to " + user.name);
    }
    return {};
  }
  if (errno != EEXIST) return fail_errno(errno, "cannot make " + directory.string());
  return {};
}

// A repository with our configuration, and without what a killed git left behind: nobody else runs
// one.
Outcome<void> prepare(const Git& git, const CheckoutRequest& request) {
  const auto repository = request.directory / ".git";
  const auto made = git.run({"init", "--quiet", "--template=", "--initial-branch=spotter"});
  if (!made) return tl::unexpected<Failure>(made.error());
  if (made->status != 0) return git_failure(*made, request);
  const AsUser as_user(git.user());
  for (const char* lock : {"index.lock", "HEAD.lock", "shallow.lock", "config.lock"}) {
    ::unlink((repository / lock).c_str());
  }
  const auto written = io::atomic_write(repository / "config", repository_config, 0644);
  if (!written)
    return fail_errno(written.error(), "cannot write in " + repository.string(), "code-failed");
  return {};
}

Outcome<bool> has_revision(const Git& git, const CheckoutRequest& request) {
  const auto result = git.run({"cat-file", "-e", request.revision + "^{commit}"});
  if (!result) return tl::unexpected<Failure>(result.error());
  return result->status == 0;
}

// Just the commit; where the server does not serve one by its id, everything.
Outcome<void> fetch(const Git& git, const CheckoutRequest& request) {
  const auto one = git.run({"fetch", "--quiet", "--no-tags", "--depth=1", "--no-write-fetch-head",
                            "--", request.repository, request.revision},
                           true);
  if (!one) return tl::unexpected<Failure>(one.error());
  if (one->status == 0) return {};
  const auto why = git_failure(*one, request);
  if (why.value().kind != "revision-missing" && why.value().kind != "code-failed" &&
      !says(*one, {"Server does not allow request for unadvertised object"})) {
    return why;
  }
  const bool shallow = ::access((request.directory / ".git" / "shallow").c_str(), F_OK) == 0;
  std::vector<std::string> arguments{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head"};
  if (shallow) arguments.push_back("--unshallow");
  for (const char* argument : {"--", request.repository.c_str(),
                               "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}) {
    arguments.push_back(argument);
  }
  const auto all = git.run(arguments, true);
  if (!all) return tl::unexpected<Failure>(all.error());
  if (all->status != 0) return git_failure(*all, request);
  const auto there = has_revision(git, request);
  if (!there) return tl::unexpected<Failure>(there.error());
  if (*there) return {};
  return fail("revision-missing", "commit " + request.revision + " is not in " +
                                      request.repository + "; was it pushed, or rewritten?");
}

Outcome<void> put_in_place(const Git& git, const CheckoutRequest& request) {
  const auto placed = git.run({"checkout", "--quiet", "--force", "--detach", request.revision});
  if (!placed) return tl::unexpected<Failure>(placed.error());
  if (placed->status != 0) return git_failure(*placed, request);
  const auto head = git.run({"rev-parse", "--verify", "HEAD"});
  if (!head) return tl::unexpected<Failure>(head.error());
  if (head->output.substr(0, 40) != request.revision) {
    return fail("code-failed", "after the checkout HEAD is not " + request.revision);
  }
  return {};
}

Outcome<CheckedOut> once(const Git& git, const CheckoutRequest& request) {
  if (const auto ready = prepare(git, request); !ready)
    return tl::unexpected<Failure>(ready.error());
  const auto there = has_revision(git, request);
  if (!there) return tl::unexpected<Failure>(there.error());
  if (!*there) {
    if (const auto got = fetch(git, request); !got) return tl::unexpected<Failure>(got.error());
  }
  if (const auto placed = put_in_place(git, request); !placed) {
    return tl::unexpected<Failure>(placed.error());
  }
  return CheckedOut{!*there};
}

}  // namespace

Outcome<CheckedOut> checkout(const CheckoutRequest& request) {
  if (const auto good = check(request); !good) return tl::unexpected<Failure>(good.error());
  auto user = find_user(request.user);
  if (!user) return tl::unexpected<Failure>(user.error());
  auto config = memory_file(global_config);
  if (!config) return tl::unexpected<Failure>(config.error());
  if (const auto made = ensure_directory(request.directory, *user); !made) {
    return tl::unexpected<Failure>(made.error());
  }
  const Git git(request, std::move(*user), std::move(*config));
  auto result = once(git, request);
  if (result || result.error().kind != "code-failed") return result;
  // A repository that a power cut damaged: a fresh one in its place; the work tree, with its
  // caches, stays.
  {
    const AsUser as_user(git.user());
    std::error_code error;
    fs::remove_all(request.directory / ".git", error);
    if (error) return result;
  }
  return once(git, request);
}

}  // namespace spotter::act::host
