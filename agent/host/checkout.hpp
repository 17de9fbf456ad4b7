// Runs git with a configuration that is ours alone: of a repository whose files somebody else can
// write, git uses objects and index, and reads nothing that says what to run or whom to ask.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "agent/host/verb.hpp"
#include "agent/io/files.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

// The directories that git works in. We make GIT_DIR, with its configuration, references and hooks,
// again by make_git_directory(). Empty paths: objects and index of its own, no work tree.
struct GitPlace {
  std::filesystem::path directory;
  std::filesystem::path objects;
  std::filesystem::path index;
  std::filesystem::path work_tree;
};

// A token, and to whom it may be given.
struct GitToken {
  std::string value;   // empty: there is none
  std::string server;  // "https://example.com:8443": scheme, host and port, and nobody else
};

// What git prints with -z: each name ends with a NUL.
std::vector<std::string> names_in(std::string_view text);
// A small file of Git LFS's that stands in the place of another.
bool is_pointer(const std::filesystem::path& file);

// wire::token_server(). Kind: "code-denied".
Result<std::string> token_server(const std::string& url);

class Git {
 public:
  // Kind: "host-error".
  static Result<Git> as(User user);

  const User& user() const { return user_; }

  // With a token, git follows no redirect, talks the server's scheme alone, and reads no home.
  Result<ToolResult> run(const GitPlace& place, std::vector<std::string> arguments,
                         const GitToken& token = {}) const;

 private:
  Git(User user, io::Descriptor config) : user_(std::move(user)), config_(std::move(config)) {}

  std::map<std::string, std::string> environment(const GitPlace& place,
                                                 const GitToken& token) const;

  User user_;
  io::Descriptor config_;
};

// An empty repository in an empty folder, made as this process's user: HEAD leads nowhere.
Result<void> make_git_directory(const std::filesystem::path& directory);

// The trainer's code: one pinned commit, fetched as the trainer's user, with nothing of the
// repository run.
struct CheckedOut {
  bool fetched = false;  // false: the commit was there already
  // A sentence for a person: pointers of Git LFS that stand in the place of files, submodules that
  // are empty folders. Empty: nothing is missing.
  std::string missing;
};

// Afterwards `directory` is a work tree with `revision` as its HEAD, tracked files as committed;
// untracked ones (caches) stay. No hooks, no submodules, no configuration but ours is read: the
// objects and the index of `.git`, which the trainer can write, are used only by processes of the
// trainer's user that have no token. A fetch that needs a token goes into a folder of a user that
// nobody else is, and is read from there by path. Without root's rights that is the same user,
// whose other processes could read the token. Kinds: "code-unreachable", "revision-missing",
// "code-denied", "code-failed", "storage-full", "tool-missing", "user-missing", "not-permitted",
// "bad-request".
Result<CheckedOut> checkout(const verbs::Checkout& request);

}  // namespace spotter::act::host
