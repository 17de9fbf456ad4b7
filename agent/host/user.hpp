// The trainer's user, and doing things as that user.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/host/failure.hpp"

namespace spotter::act::host {

struct User {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
  std::vector<gid_t> groups;
};

// Kinds: "user-missing"; "not-permitted" when we are neither root nor that user.
Result<User> find_user(const std::string& name);

// For its lifetime, this process's file accesses are the user's (effective ids and groups); nothing
// changes when we are not root. For a process of one thread, as `spotter host` is.
class AsUser {
 public:
  explicit AsUser(const User& user);
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser();

  // While there is one, what is done is done with its user's rights alone (where that is root, with
  // root's).
  static bool active();

 private:
  bool changed_ = false;
  std::vector<gid_t> groups_;
};

// Could that user put a link, or another folder, in the place of a part of this path? Also where a
// part is not there yet. Then root does nothing by this path that the user may not do himself.
bool may_redirect(const User& user, const std::filesystem::path& path);

}  // namespace spotter::act::host
