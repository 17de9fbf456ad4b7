// Where this machine has its devices.
#pragma once

#include <filesystem>

namespace spotter::act::host {

struct Machine {
  std::filesystem::path devices = "/dev";
  std::filesystem::path sysfs = "/sys";
};

}  // namespace spotter::act::host
