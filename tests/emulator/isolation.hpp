// An ordinary user's instance has user, mount, pid and IPC namespaces of its own. It sees this
// machine's files, none of them writable, and as good as none of the user's. The network is this
// machine's. Linux 5.12 or later, where an ordinary user may make user namespaces.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::emulator {

struct IsolationSettings {
  std::filesystem::path directory;              // DIR, canonical: hidden, as it has the keys
  std::vector<std::filesystem::path> writable;  // beyond the instance's own
  std::vector<std::filesystem::path> readable;  // of what is hidden otherwise
};

// The orders for isolate(), for the instance whose folder is `home`; each a letter and a path, in
// the order in which they are carried out. h: hidden behind an empty folder; r: seen all the same,
// read-only; w: seen, and writable.
std::vector<std::string> isolation_of(const IsolationSettings& settings,
                                      const std::filesystem::path& home);

// Isolates the calling process, which has CAP_SYS_ADMIN in a user namespace and is process 1 of its
// pid namespace; afterwards it has no rights, and gets none by an exec.
Result<void> isolate(const std::vector<std::string>& orders);

// Fails where this process cannot start such instances, and says why.
Result<void> can_isolate(std::vector<std::string> orders);

}  // namespace spotter::emulator
