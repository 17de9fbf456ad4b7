#include "tests/emulator/control_group.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace spotter::emulator {
namespace fs = std::filesystem;
namespace {

constexpr long cgroup2_magic = 0x63677270;
constexpr int attempts = 100;
constexpr std::chrono::milliseconds pause{10};  // the kernel releases a dead process in its time

// "/var/tmp/x" is "spotter+var+tmp+x": another folder, /var/tmp/x-2, is not below it.
std::string name_of(const fs::path& folder) {
  std::string name = "spotter" + folder.string();
  std::replace(name.begin(), name.end(), '/', '+');
  return name;
}

// From the leaves up: the kernel wants them empty, and their files do not count.
bool remove_tree(const fs::path& group) {
  std::error_code ignored;
  std::vector<fs::path> below;
  for (const auto& entry : fs::directory_iterator(group, ignored))
    if (entry.is_directory(ignored)) below.push_back(entry.path());
  for (const auto& one : below) remove_tree(one);
  fs::remove(group, ignored);
  return !fs::exists(group, ignored);
}

}  // namespace

fs::path control_groups() {
  for (const char* place : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
    struct statfs found {};
    if (::statfs(place, &found) == 0 && found.f_type == cgroup2_magic) return place;
  }
  return {};
}

Result<std::string> make_control_group(const fs::path& folder) {
  const fs::path group = control_groups() / name_of(folder);
  std::error_code failed;
  fs::create_directory(group, failed);
  if (failed) return failure(group.string() + ": " + failed.message());
  return group.string();
}

void remove_control_groups(const fs::path& folder) {
  const fs::path all = control_groups();
  if (all.empty()) return;
  const std::string name = name_of(folder);
  std::error_code ignored;
  std::vector<fs::path> ours;
  for (const auto& entry : fs::directory_iterator(all, ignored)) {
    const std::string found = entry.path().filename();
    if (found == name || found.starts_with(name + "+")) ours.push_back(entry.path());
  }
  for (const auto& group : ours)
    for (int i = 0; i < attempts && !remove_tree(group); ++i) std::this_thread::sleep_for(pause);
}

}  // namespace spotter::emulator
