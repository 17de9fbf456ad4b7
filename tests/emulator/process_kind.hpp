// An instance is a process and its descendants. Root's instances have namespaces of their own, an
// ordinary user's nothing but a folder. Both see this machine's file system and its users.
#pragma once

#include "tests/emulator/instance_kind.hpp"

namespace spotter::emulator {

class ProcessKind : public InstanceKind {
 public:
  explicit ProcessKind(bool namespaces) : namespaces_(namespaces) {}

  bool namespaces() const override { return namespaces_; }
  bool ends_with_program() const override { return false; }
  Disks::Kind disks() const override;
  Result<void> furnish(const world::InstanceStarted& started,
                       const std::filesystem::path& home) const override;
  std::filesystem::path program(const std::filesystem::path& home) const override;
  std::vector<std::string> environment(const std::filesystem::path& home,
                                       const std::string& metadata) const override;
  pid_t inside(pid_t init) const override { return init; }
  void shut_down(pid_t init) const override;
  void clear(const std::filesystem::path&) const override {}

 private:
  bool namespaces_;
};

}  // namespace spotter::emulator
