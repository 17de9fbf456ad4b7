#include "agent/host/checkout.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/s3/keys.hpp"
#include "agent/config/git_server.hpp"
#include "agent/config/job.hpp"
#include "agent/tier/home.hpp"
#include "agent/wire/status.hpp"

namespace spotter::act::host {
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

tl::unexpected<Error> git_failure(const ToolResult& result, const verbs::Checkout& request) {
  const auto words = last_words(result);
  if (says(result.errors, {"No space left on device", "Disk quota exceeded"})) {
    return fail("storage-full", "no room for the code in " + request.directory + ": " + words);
  }
  if (says(result.errors, {"requested URL returned error: 30"})) {
    return fail("code-denied", request.repository +
                                   " redirects, and code.token is for that server alone: name the "
                                   "address where the repository is (its end may be .git)");
  }
  if (says(result.errors, {"Host key verification failed"})) {
    return fail("code-denied",
                "no key of the server of " + request.repository +
                    " is known here: put the lines that `ssh-keyscan` prints, once you have "
                    "compared them, below the key in code.token, or into /etc/ssh/ssh_known_hosts");
  }
  if (says(result.errors,
           {"Authentication failed", "could not read Username", "could not read Password",
            "Permission denied (", "The requested URL returned error: 403",
            "The requested URL returned error: 401", "HTTP Basic: Access denied"})) {
    return fail("code-denied",
                request.repository + " refuses us: " + words +
                    "; check code.token in job.yaml (a server that wants a user's name beside it "
                    "takes it from code.repository: https://NAME@...)");
  }
  if (says(result.errors, {"not our ref", "couldn't find remote ref", "bad object"})) {
    return fail("revision-missing", "commit " + request.revision + " is not in " +
                                        request.repository + "; was it pushed, or rewritten?");
  }
  if (says(result.errors, {"unable to access", "Could not read from remote",
                           "does not appear to be a git", "not found", "unable to connect",
                           "does not exist", "Could not resolve host", "unable to look up",
                           "hung up", "early EOF", "RPC failed", "not supported", "not allowed"})) {
    return fail("code-unreachable",
                "cannot fetch from " + request.repository + ": " + words +
                    "; (a private repository without a valid token looks like this, too)");
  }
  return fail("code-failed", "git failed for " + request.repository + ": " + words);
}

Result<void> check(const verbs::Checkout& request) {
  const auto& revision = request.revision;
  if (revision.size() != 40 || revision.find_first_not_of("0123456789abcdef") != revision.npos)
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
  TRY(make_folder_at(directory));
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

Result<bool> has_revision(const Git& git, const GitPlace& place, const std::string& revision) {
  const auto result = TRY(git.run(place, {"cat-file", "-e", revision + "^{commit}"}));
  return result.status == 0;
}

constexpr const char* all_of_it = "--depth=2147483647";  // git's own number for it

// Just the commit; where the server does not serve one by its id, the ends of branches and tags,
// and ever more below them: a commit is mostly near one.
Result<void> fetch(const Git& git, const GitPlace& to, const std::string& from,
                   const verbs::Checkout& request, const GitToken& token = {}) {
  const auto run = [&](const char* depth, const std::vector<std::string>& what) {
    std::vector<std::string> words{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
                                   depth,   "--",      from};
    words.insert(words.end(), what.begin(), what.end());
    return git.run(to, std::move(words), token);
  };
  const auto one = TRY(run("--depth=1", {request.revision}));
  if (one.status == 0) return {};
  const auto why = git_failure(one, request);
  if (why.value().kind != "revision-missing" && why.value().kind != "code-failed" &&
      !says(one.errors, {"Server does not allow request for unadvertised object"}))
    return why;
  const bool takes_depth = !says(one.errors, {"dumb http transport does not support shallow"});
  bool is_shallow = false;
  for (const char* depth : {"--depth=1", "--depth=100", all_of_it}) {
    const bool last = depth == all_of_it;
    if (!takes_depth && !last) continue;
    const auto got = TRY(run(last && !is_shallow ? "--quiet" : depth,
                             {"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}));
    if (got.status != 0 && last) return git_failure(got, request);
    if (got.status != 0) continue;  // such as of a server of files, which knows no depth
    is_shallow = true;
    const auto there = TRY(has_revision(git, to, request.revision));
    if (there) break;
  }
  return {};
}

std::string url_of(const verbs::Checkout& request) {
  const auto aws = wire::codecommit_repository(request.repository);
  return aws ? aws->url() : request.repository;
}

// Finds what the repository's server wants to see. Empty: nothing of ours.
Result<GitToken> token_for(const verbs::Checkout& request) {
  const auto& repository = request.repository;
  if (const auto aws = wire::codecommit_repository(repository); aws && request.token.empty()) {
    const auto keys = s3::credentials_of(Environment::of_this_process());
    if (!keys) return fail("code-denied", repository + ": " + keys.error().message);
    const std::string session = keys->session_token.empty() ? "" : "%" + keys->session_token;
    return GitToken{
        wire::git_password(aws->host, aws->path, *keys, {"codecommit", aws->region, system_time()}),
        "https://" + aws->host, keys->access_key_id + session};
  }
  if (request.token.empty()) return GitToken{};
  if (wire::is_ssh_address(repository)) return GitToken{request.token, "", ""};
  const auto server = TRY(token_server(repository));
  if (server.empty()) return GitToken{};
  return GitToken{request.token, server, wire::git_user(server, request.token)};
}

// A folder of nobody's, with a git that may have a secret in it. ssh works for accounts alone: as
// root the key is root's, and so is the process that fetches with it.
class Stranger {
 public:
  static Result<Stranger> with(const GitToken& token) {
    auto folder = TRY(PrivateFolder::make());
    const bool key = token.server.empty() && !token.value.empty();
    User user = folder.user();
    if (key && ::geteuid() == 0) user = {"root", 0, 0, folder.path(), {}};
    {
      const AsUser as_stranger(user);
      TRY(make_git_directory(folder.path()));
      if (key) TRY(write_key(folder.path(), token.value));
    }
    auto git = TRY(Git::as(std::move(user)));
    return Stranger(std::move(folder), std::move(git));
  }

  const Git& git() const { return git_; }
  GitPlace place() const { return {.directory = folder_.path()}; }

  // Without the key.
  Result<void> show(const User& reader) const {
    ::unlink((folder_.path() / "key").c_str());
    return folder_.show(reader);
  }

 private:
  Stranger(PrivateFolder folder, Git git) : folder_(std::move(folder)), git_(std::move(git)) {}

  static Result<void> write_key(const fs::path& folder, const std::string& secret) {
    const auto key = wire::parse_deploy_key(secret);
    if (!key) return fail("code-denied", key.error().message);
    for (const auto& [name, text] :
         {std::pair{"key", key->key}, std::pair{"known_hosts", key->known_hosts}})
      TRY(or_fail(io::atomic_write(folder / name, text, 0600),
                  "cannot write in " + folder.string()));
    return {};
  }

  PrivateFolder folder_;
  Git git_;
};

// With the token in reach nothing of the trainer's is read, and none of its processes can look on;
// what came with it is then fetched from there.
Result<void> fetch_by_token(const Git& git, const Place& place, const verbs::Checkout& request,
                            const GitToken& token) {
  const auto stranger = TRY(Stranger::with(token));
  const GitPlace to = stranger.place();
  TRY(fetch(stranger.git(), to, url_of(request), request, token));
  TRY(stranger.show(git.user()));
  return fetch(git, place.git, to.directory, request);
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
  const auto folder = TRY(PrivateFolder::make());
  const auto to =
      TRY(or_fail(io::SafeDirectory::open(folder.path()), "cannot use " + folder.path().string()));
  const auto& bundle = *(*manifest)->files.find(config::code_bundle);
  const auto fetched = tier::fetch_files(bucket, {&bundle}, to, "coming");
  if (!fetched) return fail("code-unreachable", fetched.error().message);
  if (!fetched->torn.empty())
    return fail("code-unreachable", bucket.shown(bundle.second.key()) +
                                        " is not whole: " + fetched->torn.begin()->second);
  TRY(folder.show(git.user()));
  const auto unpacked = TRY(git.run(
      place.git, {"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--",
                  folder.path() / config::code_bundle, "+refs/heads/*:refs/remotes/spotter/*"}));
  if (unpacked.status != 0) return git_failure(unpacked, request);
  return {};
}

bool is_archive(const verbs::Checkout& request) { return request.repository.starts_with("s3://"); }

Result<void> fetch(const Git& git, const Place& place, const verbs::Checkout& request) {
  if (is_archive(request)) return fetch_archive(git, place, request);
  const auto token = TRY(token_for(request));
  if (token.value.empty()) return fetch(git, place.git, request.repository, request);
  return fetch_by_token(git, place, request, token);
}

// An archive's files become what they were.
Result<void> take_as_it_is(const Git& git, const Place& place) {
  const AsUser as_user(git.user());
  const auto info = place.git.directory / "info";
  if (::mkdir(info.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno(errno, "cannot make " + info.string(), "code-failed");
  return or_fail(io::atomic_write(info / "attributes", std::string(config::code_as_it_is), 0644),
                 "cannot write in " + info.string(), "code-failed");
}

// Returns the commit, where the revision is the id of an annotated tag.
Result<std::string> put_in_place(const Git& git, const Place& place,
                                 const verbs::Checkout& request) {
  if (is_archive(request)) TRY(take_as_it_is(git, place));
  const auto placed =
      TRY(git.run(place.git, {"checkout", "--quiet", "--force", "--detach", request.revision}));
  if (placed.status != 0) return git_failure(placed, request);
  const auto ids = TRY(git.run(place.git, {"rev-parse", "HEAD", request.revision + "^{commit}"}));
  const std::string head = ids.output.substr(0, ids.output.find('\n') + 1);
  if (head.size() != 41 || ids.output != head + head)
    return fail("code-failed", "after the checkout HEAD is not " + request.revision);
  return head;
}

// Shows the user's own git where HEAD is, and which commits have no parents here.
Result<void> show_to_user(const User& user, const Place& place, const std::string& head,
                          bool fetched) {
  const AsUser as_user(user);
  const auto shallow = place.repository / "shallow";
  if (fetched && ::rename((place.git.directory / "shallow").c_str(), shallow.c_str()) != 0)
    ::unlink(shallow.c_str());  // all of the history came
  const auto written = io::atomic_write(place.repository / "HEAD", head, 0644);
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

std::vector<std::string> pointers_in(const Git& git, const Place& place) {
  std::vector<std::string> pointers;
  const auto large = git.run(place.git, {"ls-files", "-z", "--", ":(attr:filter=lfs)"});
  if (!large || large->status != 0) return pointers;
  for (auto& name : names_in(large->output)) {
    const AsUser as_user(git.user());
    if (is_pointer(place.git.work_tree / name)) pointers.push_back(std::move(name));
  }
  return pointers;
}

// By git-lfs, where it is installed. Its own filter is named, which nothing else here has.
Result<void> run_lfs(const Git& git, const GitPlace& place, std::vector<std::string> words,
                     const GitToken& token = {}) {
  std::vector<std::string> all{"-c", "filter.lfs.clean=git-lfs clean -- %f"};
  all.insert(all.end(), std::make_move_iterator(words.begin()),
             std::make_move_iterator(words.end()));
  const auto done = TRY(git.run(place, std::move(all), token));
  if (done.status == 0) return {};
  if (says(done.errors, {"'lfs' is not a git command"}))
    return failure("git-lfs is not installed: with it in the image they are fetched");
  return failure("git-lfs: " + last_words(done));
}

std::vector<std::string> fetch_words(const verbs::Checkout& request) {
  return {"-c", "remote.origin.url=" + url_of(request), "lfs", "fetch", "origin", request.revision};
}

// Its objects come to where no secret is, and from there into the work tree.
Result<void> fetch_large(const Git& git, const Place& place, const verbs::Checkout& request) {
  if (is_archive(request)) return failure("they are as they were packed");
  const auto token = TRY(token_for(request));
  if (token.value.empty()) {
    TRY(run_lfs(git, place.git, fetch_words(request)));
    return run_lfs(git, place.git, {"lfs", "checkout"});
  }
  const auto stranger = TRY(Stranger::with(token));
  const GitPlace from = stranger.place();
  TRY(fetch(stranger.git(), from, url_of(request), request, token));
  TRY(run_lfs(stranger.git(), from, fetch_words(request), token));
  TRY(stranger.show(git.user()));
  return run_lfs(git, place.git,
                 {"-c", "lfs.storage=" + (from.directory / "lfs").string(), "lfs", "checkout"});
}

struct Submodule {
  std::string path;
  std::string revision;
  std::string url;  // empty: .gitmodules has none, or says that nobody wants it
};

std::vector<Submodule> submodules_of(const Git& git, const Place& place) {
  constexpr std::string_view prefix = "submodule.", mode = "160000 commit ";
  std::map<std::string, std::map<std::string, std::string>> named;  // by name: key -> value
  const auto modules = git.run(place.git, {"config", "-z", "--blob", "HEAD:.gitmodules", "--list"});
  if (modules && modules->status == 0)
    for (const auto& each : names_in(modules->output)) {
      const auto end = each.find('\n'), dot = each.rfind('.', end);
      if (!each.starts_with(prefix) || end == each.npos || dot <= prefix.size()) continue;
      named[each.substr(prefix.size(), dot - prefix.size())][each.substr(dot + 1, end - dot - 1)] =
          each.substr(end + 1);
    }
  std::map<std::string, std::string> urls;  // by path
  for (auto& [name, keys] : named)
    if (keys["update"] != "none") urls[keys["path"]] = keys["url"];
  std::vector<Submodule> found;
  const auto tree = git.run(place.git, {"ls-tree", "-r", "-z", "--full-tree", "HEAD"});
  if (tree && tree->status == 0)
    for (const auto& each : names_in(tree->output))
      if (const auto tab = each.find('\t'); each.starts_with(mode) && tab != each.npos)
        found.push_back({each.substr(tab + 1), each.substr(mode.size(), tab - mode.size()),
                         urls[each.substr(tab + 1)]});
  return found;
}

Result<CheckedOut> at_most_twice(const Git& git, const verbs::Checkout& request, int depth);

// A work tree of its own. The token goes with it to the server that it is for.
Result<CheckedOut> take_submodule(const Git& git, const Place& place,
                                  const verbs::Checkout& request, const Submodule& it, int depth) {
  constexpr int deepest = 8;
  if (depth == deepest) return failure("it is too deep");
  if (it.url.empty()) return failure(".gitmodules names no address that is to be fetched");
  const auto server = token_server(request.repository);
  const auto url = TRY(wire::submodule_url(
      request.repository, it.url, request.token.empty() || !server ? std::string() : *server));
  verbs::Checkout wanted{url, it.revision, place.git.work_tree / it.path, request.user, {}};
  if (wire::same_server(url, request.repository)) wanted.token = request.token;
  TRY(check(wanted));
  TRY(ensure_directory(wanted.directory, git.user()));
  return at_most_twice(git, wanted, depth + 1);
}

// Brings files of Git LFS and submodules; neither is worth the job's start. The words for a person
// are of those that did not come.
std::string complete(const Git& git, const Place& place, const verbs::Checkout& request,
                     int depth) {
  std::string text;
  const auto say = [&](const std::string& words) { text += (text.empty() ? "" : "; ") + words; };
  if (!pointers_in(git, place).empty()) {
    const auto fetched = fetch_large(git, place, request);
    const auto left = pointers_in(git, place);
    if (!left.empty())
      say("pointers of Git LFS stand in the place of " + std::to_string(left.size()) +
          (left.size() == 1 ? " file" : " files") + some_of(left) +
          (fetched ? ", which were not to be fetched" : ": " + fetched.error().message));
  }
  std::vector<std::string> empty;
  std::string why;
  for (const Submodule& each : submodules_of(git, place)) {
    const auto taken = take_submodule(git, place, request, each, depth);
    if (taken && !taken->missing.empty())
      say("in " + wire::printable(each.path) + ": " + taken->missing);
    if (taken) continue;
    empty.push_back(each.path);
    why = taken.error().message;
  }
  if (!empty.empty())
    say(std::to_string(empty.size()) +
        (empty.size() == 1 ? " submodule did not come" : " submodules did not come") +
        some_of(empty) + ": " + why);
  return text;
}

Result<CheckedOut> once(const Git& git, const verbs::Checkout& request, int depth) {
  const Place place(request.directory);
  TRY(prepare(git.user(), place));
  const auto there = TRY(has_revision(git, place.git, request.revision));
  if (!there) {
    TRY(fetch(git, place, request));
    const auto came = TRY(has_revision(git, place.git, request.revision));
    if (!came)
      return fail("revision-missing", "commit " + request.revision + " is not in " +
                                          request.repository + "; was it pushed, or rewritten?");
  }
  const auto head = TRY(put_in_place(git, place, request));
  std::string missing = complete(git, place, request, depth);
  TRY(show_to_user(git.user(), place, head, !there));
  return CheckedOut{!there, std::move(missing)};
}

// A repository that a power cut damaged: a fresh one in its place; the work tree, with its caches,
// stays.
Result<CheckedOut> at_most_twice(const Git& git, const verbs::Checkout& request, int depth) {
  auto result = once(git, request, depth);
  if (result || result.error().kind != "code-failed") return result;
  {
    const AsUser as_user(git.user());
    std::error_code error;
    fs::remove_all(fs::path(request.directory) / ".git", error);
    if (error) return result;
  }
  return once(git, request, depth);
}

class UsualModes : Pinned {
 public:
  UsualModes() : before_(io::take_usual_umask()) {}
  ~UsualModes() { ::umask(before_); }

 private:
  mode_t before_;
};

}  // namespace

Result<CheckedOut> checkout(const verbs::Checkout& request) {
  TRY(check(request));
  const UsualModes modes;
  auto user = TRY(find_user(request.user));
  TRY(ensure_directory(request.directory, user));
  return at_most_twice(TRY(Git::as(std::move(user))), request, 0);
}

}  // namespace spotter::act::host
