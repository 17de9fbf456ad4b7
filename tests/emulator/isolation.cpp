#include "tests/emulator/isolation.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "agent/io/files.hpp"
#include "tests/emulator/init.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;
namespace {

auto cannot(const std::string& what) { return failure(what + ": " + std::strerror(errno)); }

fs::path resolved(const fs::path& path) {
  std::error_code unknown;
  const fs::path real = fs::canonical(path, unknown);
  return unknown ? fs::path() : real;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// Homes of the system's users (daemon's is /usr/sbin) have what programs need.
bool is_of_the_system(const fs::path& path) {
  static constexpr std::string_view all[] = {"/",     "/bin", "/dev", "/etc",
                                             "/proc", "/sys", "/usr", "/var"};
  return std::find(std::begin(all), std::end(all), path) != std::end(all) ||
         is_within(path, "/usr");
}

// The user's own files, and the sockets of whoever does what that user says (D-Bus, Docker, the
// agent of ssh); terminals, whose keys could be read, and shared memory.
std::vector<fs::path> hidden() {
  std::vector<fs::path> all = {
      "/run",        "/var/run",  "/tmp",         "/var/tmp",       "/dev/shm",        "/dev/pts",
      "/dev/mqueue", "/var/snap", "/var/lib/lxd", "/var/lib/incus", "/var/lib/libvirt"};
  if (const char* const home = std::getenv("HOME"); home != nullptr) all.emplace_back(home);
  if (const passwd* const user = ::getpwuid(::geteuid()); user != nullptr)
    all.emplace_back(user->pw_dir);
  std::vector<fs::path> found;
  for (const fs::path& path : all)
    if (const fs::path real = resolved(path);
        !real.empty() && !is_of_the_system(real) &&
        std::find(found.begin(), found.end(), real) == found.end())
      found.push_back(real);
  return found;
}

// Programs of the server's own PATH and environment of Python, and the resolver's addresses.
std::vector<fs::path> programs() {
  std::vector<fs::path> all = {"/run/systemd/resolve", "/run/resolvconf",
                               "/run/NetworkManager/resolv.conf"};
  for (const char* const name : {"VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT"})
    if (const char* const value = std::getenv(name); value != nullptr) all.emplace_back(value);
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const auto end = std::min(rest.find(':'), rest.size());
    all.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return all;
}

// A place for a mount: it is there, or lies in an empty folder of ours.
Result<void> make_place(const fs::path& path, bool folder) {
  std::error_code problem;
  if (fs::exists(path, problem)) return {};
  fs::create_directories(folder ? path : path.parent_path(), problem);
  if (problem) return failure(path.string() + ": " + problem.message());
  if (!folder) std::ofstream(path).close();
  return {};
}

Result<void> hide(const fs::path& path) {
  if (auto made = make_place(path, true); !made) return made;
  if (::mount("tmpfs", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0)
    return cannot("hide " + path.string());
  return {};
}

struct Seen {
  fs::path path;
  bool writable;
  io::Descriptor tree;
};

Result<void> show(const Seen& seen) {
  mount_attr attributes{};
  attributes.attr_set = seen.writable ? MOUNT_ATTR_NOSUID : MOUNT_ATTR_NOSUID | MOUNT_ATTR_RDONLY;
  struct stat status {};
  if (::fstat(seen.tree.get(), &status) != 0 ||
      ::mount_setattr(seen.tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                      sizeof attributes) != 0)
    return cannot("protect " + seen.path.string());
  if (auto made = make_place(seen.path, S_ISDIR(status.st_mode)); !made) return made;
  if (::move_mount(seen.tree.get(), "", AT_FDCWD, seen.path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
    return cannot("show " + seen.path.string());
  return {};
}

// Opens trees before anything is hidden: later a path leads to nothing.
Result<std::vector<Seen>> opened(const std::vector<std::string>& orders) {
  std::vector<Seen> all;
  for (const auto& order : orders) {
    const fs::path path = order.substr(1);
    io::Descriptor tree;
    if (order[0] != 'h') {
      tree = io::Descriptor(
          ::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
      if (!tree) return cannot("open " + path.string());
    }
    all.push_back({path, order[0] == 'w', std::move(tree)});
  }
  return all;
}

Result<void> protect_everything() {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return cannot("make mounts private");
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
  if (::mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attributes, sizeof attributes) != 0)
    return cannot("make / read-only");
  return {};
}

Result<void> give_up_rights() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return cannot("give up rights");
  return {};
}

}  // namespace

std::vector<std::string> isolation_of(const IsolationSettings& settings, const fs::path& home) {
  const auto unseen = hidden();
  std::vector<std::string> orders;
  for (const auto& path : unseen) orders.push_back("h" + path.string());
  const auto is_unseen = [&](const fs::path& path) {
    return std::any_of(unseen.begin(), unseen.end(), [&](const fs::path& folder) {
      return path != folder && is_within(path, folder);
    });
  };
  auto readable = programs();
  readable.insert(readable.end(), settings.readable.begin(), settings.readable.end());
  for (const auto& path : readable)
    if (const fs::path real = resolved(path); is_unseen(real))
      orders.push_back("r" + real.string());
  for (const auto& path : settings.writable) {
    const fs::path real = resolved(path);
    orders.push_back("w" + (real.empty() ? path : real).string());  // isolate() names what is wrong
  }
  orders.push_back("h" + settings.directory.string());
  for (const char* const shared : {"volumes", "batch"})
    orders.push_back("w" + (settings.directory / shared).string());
  if (home.empty()) return orders;
  // The server itself opens the console again, and makes the devices: neither can be replaced.
  orders.push_back("w" + home.string());
  orders.push_back("r" + (home / "devices").string());
  orders.push_back("w" + (home / "console.log").string());
  return orders;
}

Result<void> isolate(const std::vector<std::string>& orders) {
  const fs::path folder = fs::current_path();
  const auto all = opened(orders);
  if (!all) return tl::unexpected(all.error());
  if (auto done = protect_everything(); !done) return done;
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return cannot("mount /proc");
  for (const Seen& each : *all)
    if (auto done = each.tree ? show(each) : hide(each.path); !done) return done;
  // The folder it was in is hidden, and all that is beside it would be seen from there.
  if (::chdir(folder.c_str()) != 0) return cannot("enter " + folder.string());
  return give_up_rights();
}

Result<void> can_isolate(std::vector<std::string> orders) {
  InitOptions options{};
  options.namespaces = false;
  options.folder = "/";
  options.console = "/dev/null";
  options.isolation = std::move(orders);
  const auto init = start_init(options);
  if (!init) return tl::unexpected(init.error());
  ::close(init->socket);
  ::kill(init->pid, SIGKILL);
  while (::waitpid(init->pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {};
}

}  // namespace spotter::emulator
