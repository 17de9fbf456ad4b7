// /proc/self/mountinfo: the kernel writes it, but names in it are anybody's. It is read from a
// file, so the input is put in one: in the working directory, which scripts/fuzz makes and removes.
#include <algorithm>
#include <fstream>

#include "agent/host/mounts.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  std::ofstream("mountinfo", std::ios::binary | std::ios::trunc) << bytes;
  const auto entries = act::host::mounts("mountinfo");
  must(entries.size() <= 1 + static_cast<std::size_t>(std::ranges::count(bytes, '\n')),
       "an entry is a line");
  for (const auto& entry : entries) {
    must(!entry.mount_point.empty() && !entry.filesystem.empty(), "an entry is complete");
  }
}

}  // namespace spotter::fuzz
