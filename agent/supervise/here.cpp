#include "agent/supervise/here.hpp"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <system_error>

namespace spotter::command {

std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/usr/bin/spotter" : path.string();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string run_directory_of(const act::Environment& environment) {
  const std::string set = environment.get("SPOTTER_RUN");
  return set.empty() ? "/run/spotter" : set;
}

}  // namespace spotter::command
