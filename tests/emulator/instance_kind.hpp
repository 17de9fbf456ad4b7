// An instance on this machine: a plug. Whatever its kind, it has a folder, an identity by its
// metadata listener, and a first process (init.hpp) that starts one program; with that process all
// of it ends. Kinds: process_kind.hpp, container_kind.hpp, machine_kind.hpp.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "tests/emulator/disks.hpp"
#include "tests/world/occurrence.hpp"

namespace spotter::emulator {

class InstanceKind {
 public:
  virtual ~InstanceKind() = default;

  // In pid, mount and network namespaces of its own, with 169.254.169.254 and loop devices; else
  // beside everybody else, with folders.
  virtual bool namespaces() const = 0;
  // The end of its program is the end of the instance; else it runs on, as a machine does whose
  // user data is done.
  virtual bool ends_with_program() const = 0;
  // Orders for its init, which then sees little of this machine (isolation.hpp); empty: none.
  virtual std::vector<std::string> isolation(const std::filesystem::path&) const { return {}; }
  // The form in which an attached volume shows in the instance's devices.
  virtual Disks::Kind disks() const = 0;

  // Before each start: all that there has to be in the instance's folder, `home`.
  virtual Result<void> furnish(const world::InstanceStarted& started,
                               const std::filesystem::path& home) const = 0;
  // The program that its init runs; a file that is not there: none.
  virtual std::filesystem::path program(const std::filesystem::path& home) const = 0;
  // NAME=VALUE; `metadata`: the URL of its metadata service.
  virtual std::vector<std::string> environment(const std::filesystem::path& home,
                                               const std::string& metadata) const = 0;

  // The process that sees the instance's mounts; 0: it does not run yet, or no more.
  virtual pid_t inside(pid_t init) const = 0;
  // The power button.
  virtual void shut_down(pid_t init) const = 0;
  // After every process of it is gone.
  virtual void clear(const std::filesystem::path& home) const = 0;
};

}  // namespace spotter::emulator
