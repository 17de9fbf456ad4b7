// Shared by the tests of the checkout: a repository of two commits, and servers of it.
#pragma once

#include <pwd.h>

#include <initializer_list>

#include "agent/host/checkout.hpp"
#include "agent/io/files.hpp"
#include "disk.hpp"

namespace spotter::act::host {

// Root fetches as nobody from a repository of root's; anybody else as themselves.
class Checkout : public Directory {
 protected:
  void SetUp() override;
  void make_code() const;  // the user's empty folder, as whoever mounts the storage makes it
  std::string git(std::vector<std::string> arguments, bool inside = true) const;
  std::string commit(const std::string& name, const std::string& text) const;
  verbs::Checkout request(const std::string& revision) const;
  std::string code(const std::string& name) const {
    return io::read_file(directory_ / "code" / name, 1U << 16).value_or("(none)");
  }

  std::string user_;
  std::filesystem::path repository_;
  std::string first_, second_;
};

// tests/host/git_server.py, for as long as this lives.
class GitServer {
 public:
  GitServer(const std::filesystem::path& directory, const std::string& name,
            std::initializer_list<std::string> pairs = {});
  ~GitServer();

  std::string url(const std::string& scheme = "http") const {
    return scheme + "://127.0.0.1:" + std::to_string(port_);
  }
  // Everything that its requests came with.
  std::string seen() const { return io::read_file(seen_, 1U << 20).value_or(""); }
  bool saw(const std::string& what) const { return seen().find(what) != std::string::npos; }

 private:
  std::filesystem::path seen_;
  io::Descriptor input_;
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace spotter::act::host
