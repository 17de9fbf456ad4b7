// A process that feeds the trainer, started beside this one, and this end of their socket
// (agent/data/fifo.hpp): the data plane, or the server of views of mode `fast_file`.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/data/fifo.hpp"
#include "agent/data/plane.hpp"

namespace spotter::command {

class Sidecar {
 public:
  // Runs in that process with its end of the socket; never returns.
  using Body = std::function<void(int socket)>;

  // Null: see errno.
  static std::unique_ptr<Sidecar> start(std::string name, const Body& body);

  data::Holder& holder() { return holder_; }
  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }  // 0: it has ended
  bool ready() const { return ready_; }
  int descriptor() const { return gone_ ? -1 : holder_.descriptor(); }

  // Why the trainer must be stopped, once for each reason; none: no new reason.
  std::optional<std::string> listen();
  void ended() { pid_ = 0; }  // to be called when waitpid has had it
  // Asks it to end, and waits for that.
  void leave();

 private:
  Sidecar(std::string name, pid_t pid, data::Descriptor socket)
      : name_(std::move(name)), pid_(pid), holder_(std::move(socket)) {}

  std::string name_;
  pid_t pid_;
  data::Holder holder_;
  bool ready_ = false;
  bool gone_ = false;
};

// The body of the views' process: spotter-fastfile, installed beside this program.
void exec_views(const data::PlaneSettings& settings, int socket);

// Moves the channels of mode `fast_file`, with their part of the memory, into the result.
data::PlaneSettings split_views(data::PlaneSettings& settings);

}  // namespace spotter::command
