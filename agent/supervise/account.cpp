#include "agent/supervise/account.hpp"

#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spotter::supervise {
namespace {

constexpr gid_t first_of_people = 1000;  // login.defs(5): GID_MIN
constexpr std::string_view of_gpus[] = {"video", "render"};
// Members of these are root by one command; or read and write what it has.
constexpr std::string_view of_administrators[] = {
    "root", "sudo",    "wheel",  "admin", "docker", "lxd",        "incus",
    "disk", "libvirt", "podman", "kmem",  "shadow", "incus-admin"};
constexpr std::chrono::seconds patience_with_sudo{10};

bool is_one_of(std::string_view name, const auto& names) {
  return std::ranges::find(names, name) != std::end(names);
}

// `ask`: getgrouplist(3), for which macOS has groups that are an int.
template <class Group>
std::vector<gid_t> all_groups(int (*ask)(const char*, Group, Group*, int*), const std::string& user,
                              gid_t own) {
  int count = 64;
  std::vector<Group> groups(static_cast<std::size_t>(count));
  if (ask(user.c_str(), static_cast<Group>(own), groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));
    if (ask(user.c_str(), static_cast<Group>(own), groups.data(), &count) < 0) count = 0;
  }
  groups.resize(static_cast<std::size_t>(count));
  return {groups.begin(), groups.end()};
}

std::string name_of(gid_t group) {
  const struct group* entry = ::getgrgid(group);
  return entry == nullptr ? std::string() : entry->gr_name;
}

}  // namespace

Result<Account> find_user(const std::string& name) {
  errno = 0;
  const passwd* entry = getpwnam(name.c_str());
  const int code = entry == nullptr ? errno : 0;
  // Each of these says that there is none (getpwnam(3)).
  const std::initializer_list<int> none{0, ENOENT, ESRCH, EBADF, EPERM};
  if (std::ranges::find(none, code) == none.end())
    return failure("cannot look up the user '" + name + "': " + std::strerror(code),
                   "user-missing");
  if (entry == nullptr)
    return failure("there is no user '" + name + "' on this machine (trainer.user of job.yaml)",
                   "user-missing");
  const uid_t us = geteuid();
  Account account{name, entry->pw_uid, entry->pw_gid, home_of(*entry), {}, entry->pw_shell};
  if (us != 0 && account.uid != us) {
    const passwd* self = getpwuid(us);
    return failure("only root can run the trainer as '" + name + "'; we are '" +
                       (self != nullptr ? self->pw_name : std::to_string(us)) + "'",
                   "not-permitted");
  }
  account.groups = groups_of(name, account.gid);
  return account;
}

std::vector<gid_t> groups_of(const std::string& user, gid_t own) {
  std::vector<gid_t> groups = all_groups(::getgrouplist, user, own);
  std::erase_if(groups, [&](gid_t each) {
    if (each == own) return false;
    const std::string name = name_of(each);
    if (is_one_of(name, of_administrators)) return true;
    return each < first_of_people && !is_one_of(name, of_gpus);
  });
  return groups;
}

std::string administrators_right(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return {};
  if (entry->pw_uid == 0) return "it is root";
  for (const gid_t each : all_groups(::getgrouplist, user, entry->pw_gid))
    if (const std::string name = name_of(each); is_one_of(name, of_administrators))
      return "it is in the group " + name;
  constexpr const char* sudo = "/usr/bin/sudo";
  if (::access(sudo, X_OK) != 0) return {};
  const auto said = io::run_tool({.argv = {sudo, "-n", "-l", "-U", user},
                                  .environment = {{"LC_ALL", "C"}},
                                  .path = "/usr/sbin:/usr/bin:/bin",
                                  .limit = patience_with_sudo});
  if (!said) return "sudo does not say what it may";
  if (said->output.find("may run the following") != std::string::npos)
    return "sudo lets it run commands";
  return {};
}

std::string home_of(const passwd& user) {
  const bool is_packages = user.pw_name == std::string_view("spotter") &&
                           user.pw_dir == std::string_view("/nonexistent");
  return is_packages ? std::string(packages_home) : user.pw_dir;
}

bool is_login_shell(std::string_view shell) {
  return !shell.ends_with("/nologin") && !shell.ends_with("/false");
}

bool is_images_administrator(std::string_view user) {
  constexpr std::string_view names[] = {"root",   "ubuntu", "ec2-user", "admin",     "debian",
                                        "centos", "fedora", "rocky",    "cloud-user"};
  return is_one_of(user, names);
}

}  // namespace spotter::supervise
