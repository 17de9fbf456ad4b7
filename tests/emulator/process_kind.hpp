// An instance is a process and its descendants. Root's instances have namespaces of their own, an
// ordinary user's those of isolation.hpp, where the kernel has them. All see this machine's users
// and, as far as they may, its files.
#pragma once

#include <optional>

#include "tests/emulator/instance_kind.hpp"
#include "tests/emulator/isolation.hpp"

namespace spotter::emulator {

class ProcessKind : public InstanceKind {
 public:
  // `isolation`: none, it sees and does what the server may.
  ProcessKind(bool namespaces, std::optional<IsolationSettings> isolation)
      : namespaces_(namespaces), isolation_(std::move(isolation)) {}

  bool namespaces() const override { return namespaces_; }
  bool ends_with_program() const override { return false; }
  std::vector<std::string> isolation(const std::filesystem::path& home) const override {
    return isolation_ ? isolation_of(*isolation_, home) : std::vector<std::string>{};
  }
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
  std::optional<IsolationSettings> isolation_;
};

}  // namespace spotter::emulator
