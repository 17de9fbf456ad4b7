#include "tests/emulator/machine_kind.hpp"

#include <signal.h>

#include <fstream>

#include "agent/base/text.hpp"
#include "tests/emulator/process_tree.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;

fs::path MachineKind::program(const fs::path& home) const { return home / "boot"; }

Result<void> MachineKind::furnish(const world::InstanceStarted&, const fs::path& home) const {
  std::error_code failed;
  fs::create_directories(home / "devices/disk/by-id", failed);
  std::ofstream script(program(home));
  script << "#!/bin/sh\nexec";
  for (const std::string& word : boot_) script << " " << wire::shell_quoted(word);
  script << "\n";
  script.close();
  if (!failed) fs::permissions(program(home), fs::perms::owner_all, failed);
  if (failed || !script) return failure(program(home).string() + " could not be written");
  return {};
}

std::vector<std::string> MachineKind::environment(const fs::path& home, const std::string&) const {
  return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
          "TMPDIR=" + home.string()};
}

// The program is the init's child; what it has started is its own to end.
void MachineKind::shut_down(pid_t init) const {
  for (const pid_t pid : descendants(init))
    if (parent_of(pid) == init) ::kill(pid, SIGTERM);
}

}  // namespace spotter::emulator
