// An instance is whatever one program boots, as a rule a virtual machine (tests/machine/boot.py):
// it is run in the instance's folder, alone in pid, mount and network namespaces in which
// 169.254.169.254 is the metadata and 127.0.0.1:4566 the API; with it the instance ends.
//
//   devices/disk/by-id/nvme-Amazon_..._vol0123   for each attached volume a link to its file, which
//                                                comes and goes: the program plugs it in and out
//   SIGTERM                                      the power button; SIGKILL: the power is lost
#pragma once

#include "tests/emulator/instance_kind.hpp"

namespace spotter::emulator {

class MachineKind : public InstanceKind {
 public:
  // `boot`: the program and its arguments.
  explicit MachineKind(std::vector<std::string> boot) : boot_(std::move(boot)) {}

  bool namespaces() const override { return true; }
  bool ends_with_program() const override { return true; }
  Disks::Kind disks() const override { return Disks::Kind::Files; }
  Result<void> furnish(const world::InstanceStarted& started,
                       const std::filesystem::path& home) const override;
  std::filesystem::path program(const std::filesystem::path& home) const override;
  std::vector<std::string> environment(const std::filesystem::path& home,
                                       const std::string& metadata) const override;
  pid_t inside(pid_t) const override { return 0; }  // what it mounts only its own kernel knows
  void shut_down(pid_t init) const override;
  void clear(const std::filesystem::path&) const override {}

 private:
  std::vector<std::string> boot_;
};

}  // namespace spotter::emulator
