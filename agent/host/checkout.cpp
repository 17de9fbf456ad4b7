#include "agent/host/checkout.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <initializer_list>
#include <string>
#include <utility>

#include "agent/host/git.hpp"
#include "agent/host/private_folder.hpp"
#include "agent/host/tool.hpp"
#include "agent/host/user.hpp"
#include "agent/io/beneath.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

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

// As the user alone, who may have put a link in the place of what is above it: where the user could
// not make it, whoever mounted the storage has.
Result<void> ensure_directory(const fs::path& directory, const User& user) {
  const AsUser as_user(user);
  const auto above = io::Beneath::open(directory.parent_path());
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

Result<void> fetch(const Git& git, const Place& place, const verbs::Checkout& request) {
  const auto server = token_server(request.repository);
  if (request.token.empty() || (server && server->empty()))
    return fetch(git, place.git, request.repository, request);
  if (!server) return tl::unexpected<Error>(server.error());
  return fetch_by_token(git, place, request, {request.token, *server});
}

Result<void> put_in_place(const Git& git, const Place& place, const verbs::Checkout& request) {
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

// For the user's own git: where HEAD is, and which commits have no parents here.
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
  if (const auto shown = show_to_user(git.user(), place, request, !*there); !shown)
    return tl::unexpected<Error>(shown.error());
  return CheckedOut{!*there};
}

// What others are to read has to be readable, whatever our own umask is.
class UsualModes {
 public:
  UsualModes() : before_(::umask(022)) {}
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
