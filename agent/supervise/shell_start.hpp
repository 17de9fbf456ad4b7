// Says when the trainer's login shell does not come to the command: something in its profile, such
// as the hook of a version manager, is slow or waits for ever, and the trainer seems to hang.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

class ShellStart {
 public:
  // `patience`: in milliseconds, until it is said.
  explicit ShellStart(std::int64_t patience) : patience_(patience) {}

  // Makes the FIFO into which the shell writes before the command. Without one (the file system has
  // none) nothing is said, and the trainer runs as it would.
  void prepare(const RunDirectory& directory, const Launch& launch);
  // The same launch, whose shell first writes into the FIFO.
  Launch marked(Launch launch) const;

  bool is_awaited() const { return awaited_; }
  // For poll(2); -1 when nothing is awaited.
  int descriptor() const { return awaited_ ? fifo_.get() : -1; }
  // Milliseconds until there is something to say; -1: nothing will be.
  int milliseconds_left(std::int64_t now) const;
  // `readable`: POLLIN: the shell has come to the command. Returns what is to be said.
  std::optional<std::string> look(bool readable, std::int64_t now);
  // Removes the FIFO; keeps it open: a shell that is about to open it would wait for ever for a
  // reader.
  void end();

 private:
  std::int64_t patience_;
  std::int64_t began_ = 0;
  bool awaited_ = false;
  bool said_ = false;
  std::string shell_, user_, path_;
  Descriptor fifo_;
};

}  // namespace spotter::supervise
