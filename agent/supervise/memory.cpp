#include "agent/supervise/memory.hpp"

#include <fstream>

namespace spotter::supervise {

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
