#include "agent/host/user.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace spotter::act::host {
namespace {

// Going on with the wrong identity would be worse than any crash.
void must(int result) {
  if (result != 0) std::abort();
}

int living = 0;

}  // namespace

Result<User> find_user(const std::string& name) {
  std::vector<char> buffer(16384);
  struct passwd entry {};
  struct passwd* found = nullptr;
  const int error = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    if (error != 0)
      return fail_errno(error, "cannot look up the user '" + name + "'", "user-missing");
    return fail("user-missing", "there is no user '" + name +
                                    "' on this machine; create it in the image, or name another in "
                                    "trainer.user of job.yaml");
  }
  User user{name, entry.pw_uid, entry.pw_gid, entry.pw_dir, {}};
  if (::geteuid() != 0 && ::geteuid() != user.uid) {
    return fail("not-permitted",
                "only root can work as the user '" + name +
                    "'; run the agent as root, or name its own user in trainer.user");
  }
  int count = 64;
  user.groups.resize(static_cast<std::size_t>(count));
  if (::getgrouplist(name.c_str(), user.gid, user.groups.data(), &count) < 0) {
    user.groups.resize(static_cast<std::size_t>(count));
    if (::getgrouplist(name.c_str(), user.gid, user.groups.data(), &count) < 0) count = 0;
  }
  user.groups.resize(static_cast<std::size_t>(count));
  return user;
}

AsUser::AsUser(const User& user) {
  ++living;
  if (::geteuid() != 0 || user.uid == 0) return;
  const int count = ::getgroups(0, nullptr);
  groups_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (count > 0) must(::getgroups(count, groups_.data()) == count ? 0 : -1);
  must(::setgroups(user.groups.size(), user.groups.data()));
  must(::setegid(user.gid));
  must(::seteuid(user.uid));
  changed_ = true;
}

bool AsUser::active() { return living > 0; }

AsUser::~AsUser() {
  --living;
  if (!changed_) return;
  must(::seteuid(0));
  must(::setegid(0));
  must(::setgroups(groups_.size(), groups_.data()));
}

bool may_redirect(const User& user, const std::filesystem::path& path) {
  std::error_code error;
  // With the links' targets, as far as it exists.
  const auto whole = std::filesystem::weakly_canonical(path, error);
  if (error) return true;
  const AsUser as(user);
  for (const auto& way : {path.lexically_normal(), whole}) {
    std::filesystem::path above = "/";
    for (const auto& part : way.relative_path()) {
      struct stat folder {
      }, next{};
      const bool may_write = ::faccessat(AT_FDCWD, above.c_str(), W_OK, AT_EACCESS) == 0;
      if (::stat(above.c_str(), &folder) != 0) return may_write;
      above /= part;
      const bool is_there = ::lstat(above.c_str(), &next) == 0;
      // In a folder like /tmp only who owns one of the two may change what is there.
      const bool sticky = (folder.st_mode & S_ISVTX) != 0;
      const bool may_replace =
          !is_there || !sticky || next.st_uid == user.uid || folder.st_uid == user.uid;
      if (may_write && may_replace) return true;
      if (!is_there) break;
    }
  }
  return false;
}

}  // namespace spotter::act::host
