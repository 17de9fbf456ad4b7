#include "agent/supervise/control_group.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <thread>

#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {
namespace {

// The mount point of version 2: /sys/fs/cgroup, or a folder beside version 1.
std::string mount_point() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") == line.npos) continue;
    std::istringstream words(line);
    std::string skipped, root, point;
    words >> skipped >> skipped >> skipped >> root >> point;
    if (root == "/") return point;
  }
  return {};
}

std::string own_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return {};
}

bool has_processes(const std::string& path) {
  std::ifstream events(path + "/cgroup.events");
  for (std::string line; std::getline(events, line);)
    if (line == "populated 1") return true;
  return false;
}

bool put(const std::string& file, std::string_view text) {
  const Descriptor to(open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return to && write(to.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

std::string make_control_group() {
  const std::string mount = mount_point(), group = own_group();
  if (mount.empty() || group.empty()) return {};
  std::string path = mount + (group == "/" ? "" : group) + "/spotter-trainer-" +
                     std::to_string(getpid()) + "-" + std::to_string(boottime_milliseconds());
  if (mkdir(path.c_str(), 0755) != 0) return {};
  if (access((path + "/cgroup.kill").c_str(), W_OK) == 0) return path;
  rmdir(path.c_str());
  return {};
}

bool enter_control_group(const std::string& path) { return put(path + "/cgroup.procs", "0"); }

void kill_control_group(const std::string& path) {
  if (!path.empty()) put(path + "/cgroup.kill", "1");
}

bool remove_control_group(const std::string& path, std::chrono::milliseconds patience) {
  if (path.empty()) return true;
  constexpr std::chrono::milliseconds pause(10);
  for (auto left = patience; left >= pause; left -= pause) {
    kill_control_group(path);
    if (rmdir(path.c_str()) == 0 || errno != EBUSY) return true;
    std::this_thread::sleep_for(pause);
  }
  return !has_processes(path);  // or another has made a group in it
}

std::uint64_t kills_for_want_of_memory(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::")) group = line.substr(3);
  std::ifstream events(root + "/sys/fs/cgroup" + group + "/memory.events");
  std::string name;
  for (std::uint64_t count = 0; events >> name >> count;)
    if (name == "oom_kill") return count;
  return 0;
}

}  // namespace spotter::supervise
