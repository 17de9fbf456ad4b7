// All that lies below a directory, to compare it before and after.
#pragma once

#include <map>

#include "tests/trainer/scratch.hpp"

namespace spotter::test {

// Each file's path below it, with its bytes; a directory's with a slash. Locks are not looked at.
inline std::map<std::string, std::string> contents(const std::filesystem::path& directory) {
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().lexically_relative(directory).string();
    if (entry.is_directory()) {
      found[name + "/"] = "";
    } else if (entry.path().filename() != ".writer") {
      found[name] = read_file(entry.path());
    }
  }
  return found;
}

}  // namespace spotter::test
