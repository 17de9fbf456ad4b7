// Runs git with a configuration that is ours alone: of a repository whose files somebody else can
// write, git uses objects and index, and reads nothing that says what to run or whom to ask.
#pragma once

#include "agent/host/verb.hpp"

namespace spotter::act::host {

// A folder of a user that nobody else is: for work with a secret, where no process and no file of
// the trainer's user is in reach. Exists as long as this object does; the next process removes what
// a killed one left behind. Its user is a number without an account, of the range that systemd has
// for DynamicUser=: it has no rights, and nobody else can trace its processes or read their
// environment. Without root's rights it is our own user. https://systemd.io/UIDS-GIDS/
class PrivateFolder {
 public:
  // Below $TMPDIR, else /var/tmp.
  static Result<PrivateFolder> make();
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const fs::path& path() const { return path_; }
  const User& user() const { return user_; }

  // From now on that user may read it, and still change nothing.
  Result<void> show(const User& reader) const;

 private:
  PrivateFolder(fs::path path, io::Descriptor lock, User user);

  fs::path path_;
  io::Descriptor lock_;  // advisory, of the folder: it is in use
  User user_;
};

// The directories that git works in. We make GIT_DIR, with its configuration, references and hooks,
// again by make_git_directory(). Empty paths: objects and index of its own, no work tree.
struct GitPlace {
  fs::path directory;
  fs::path objects;
  fs::path index;
  fs::path work_tree;
};

// A secret, and to whom it may be given.
struct GitToken {
  std::string value;   // empty: there is none
  std::string server;  // "https://example.com:8443": scheme, host and port, and nobody else.
                       // Empty: it is a key by SSH, the file `key` beside `known_hosts` in GIT_DIR
  std::string user;    // beside a token, where the URL names none
};

// wire::token_server().
Result<std::string> token_server(const std::string& url);

class Git {
 public:
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
Result<void> make_git_directory(const fs::path& directory);

}  // namespace spotter::act::host
