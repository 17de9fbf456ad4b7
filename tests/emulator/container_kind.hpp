// An instance is a Debian (or the like) of its own with systemd as process 1, in systemd-nspawn: an
// overlay over a root that all share, its own network with a bridge on which the emulator answers,
// its own group of processes. Its disk's changes lie in memory and are gone when the instance
// stops; a reboot from inside keeps them.
//
//  address     10.0.0.2 (host0, by systemd-networkd), and 10.0.0.1:4566 is AWS_ENDPOINT_URL
//  volumes     /dev/disk/by-id/nvme-Amazon_..., links to nodes in /dev/disk/nodes; no udev runs,
//              so systemd knows no .device units
//  journal     DIR/instances/i-*/journal, also when the instance is gone: journalctl -D
//  user data   only in its metadata: the root has to have something like cloud-init
//  console     DIR/instances/i-*/console.log
//
// The clock is this machine's, and so is the kernel: neither can be set from inside.
// https://www.freedesktop.org/software/systemd/man/252/systemd-nspawn.html
#pragma once

#include <vector>

#include "tests/emulator/instance_kind.hpp"

namespace spotter::emulator {

struct ContainerSettings {
  std::vector<std::filesystem::path> layers;  // of the shared root, the topmost first; as they are
  std::vector<std::filesystem::path> binds;   // seen at the same place in every instance
  std::vector<std::string> environment;       // NAME=VALUE for all that systemd starts
  std::string disk = "512m";                  // what can be written, as tmpfs has it
};

class ContainerKind : public InstanceKind {
 public:
  // Fails with what is missing on this machine, if anything.
  static Result<void> possible(const ContainerSettings& settings);
  explicit ContainerKind(ContainerSettings settings) : settings_(std::move(settings)) {}

  bool namespaces() const override { return true; }
  bool ends_with_program() const override { return true; }
  Disks::Kind disks() const override { return Disks::Kind::Nodes; }
  Result<void> furnish(const world::InstanceStarted& started,
                       const std::filesystem::path& home) const override;
  std::filesystem::path program(const std::filesystem::path& home) const override;
  std::vector<std::string> environment(const std::filesystem::path& home,
                                       const std::string& metadata) const override;
  pid_t inside(pid_t init) const override;
  void shut_down(pid_t init) const override;
  void clear(const std::filesystem::path& home) const override;

 private:
  ContainerSettings settings_;
};

}  // namespace spotter::emulator
