// A group of processes (cgroup2) for each instance that runs a systemd of its own. Its name is the
// instance's folder, so that whoever finds one that is left over knows whose it was.
// https://docs.kernel.org/admin-guide/cgroup-v2.html
#pragma once

#include <filesystem>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::emulator {

// The mount point of cgroup2; empty: it is not mounted.
std::filesystem::path control_groups();

// Makes the group of this folder, or finds it; its path.
Result<std::string> make_control_group(const std::filesystem::path& folder);

// Removes the groups of this folder and of all below it; those with processes stay.
void remove_control_groups(const std::filesystem::path& folder);

}  // namespace spotter::emulator
