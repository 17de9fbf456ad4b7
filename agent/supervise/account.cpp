#include "agent/supervise/account.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <optional>

#include "agent/io/child.hpp"
#include "agent/io/files.hpp"

namespace spotter::supervise {
namespace {

using std::chrono::steady_clock;

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

std::vector<gid_t> all_groups(const std::string& user, gid_t own) {
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgrouplist(user.c_str(), own, groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));
    if (::getgrouplist(user.c_str(), own, groups.data(), &count) < 0) count = 0;
  }
  groups.resize(static_cast<std::size_t>(count));
  return groups;
}

std::string name_of(gid_t group) {
  const struct group* entry = ::getgrgid(group);
  return entry == nullptr ? std::string() : entry->gr_name;
}

// Its stdout; none: it cannot be run, or did not end in time.
std::optional<std::string> output_of(const std::vector<std::string>& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const io::Descriptor from(ends[0]);
  io::Descriptor to(ends[1]);
  const io::Program program(command,
                            std::vector<std::string>{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/bin"});
  const pid_t child = io::fork_child([&] {
    const io::Descriptor nothing(::open("/dev/null", O_RDWR));
    ::dup2(nothing.get(), 0);
    ::dup2(to.get(), 1);
    ::dup2(nothing.get(), 2);
    program.execute();
    return 127;
  });
  to.close();
  if (child < 0) return std::nullopt;
  std::string text;
  bool ended = false;
  const auto until = steady_clock::now() + patience_with_sudo;
  while (!ended && steady_clock::now() < until) {
    pollfd readable{from.get(), POLLIN, 0};
    if (::poll(&readable, 1, 100) <= 0) continue;
    std::array<char, 4096> some{};
    const ssize_t got = ::read(from.get(), some.data(), some.size());
    ended = got <= 0;
    if (got > 0) text.append(some.data(), static_cast<std::size_t>(got));
  }
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!ended) return std::nullopt;
  return text;
}

}  // namespace

std::vector<gid_t> groups_of(const std::string& user, gid_t own) {
  std::vector<gid_t> groups = all_groups(user, own);
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
  for (const gid_t each : all_groups(user, entry->pw_gid))
    if (const std::string name = name_of(each); is_one_of(name, of_administrators))
      return "it is in the group " + name;
  constexpr const char* sudo = "/usr/bin/sudo";
  if (::access(sudo, X_OK) != 0) return {};
  const auto rights = output_of({sudo, "-n", "-l", "-U", user});
  if (!rights) return "sudo does not say what it may";
  if (rights->find("may run the following") != rights->npos) return "sudo lets it run commands";
  return {};
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
