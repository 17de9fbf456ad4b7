// Runs git with a configuration that is ours alone: of a repository whose files somebody else can
// write, git uses objects and index, and reads nothing that says what to run or whom to ask.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "agent/host/tool.hpp"
#include "agent/io/descriptor.hpp"

namespace spotter::act::host {

// What git works in: GIT_DIR, with its configuration, references and hooks, is ours, made again by
// make_git_directory(). Empty paths: objects and index of its own, no work tree.
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

}  // namespace spotter::act::host
