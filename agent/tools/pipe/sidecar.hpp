// A process that feeds the trainer, beside it, and this one's end of what they say to one another
// (agent/data/words.hpp): the data plane, or the one that serves the views of mode `fast_file`.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/data/holder.hpp"
#include "agent/data/plane.hpp"

namespace spotter::command {

class Sidecar {
 public:
  // Becomes that process, with its end of the socket; never returns.
  using Body = std::function<void(int socket)>;

  // Null: errno.
  static std::unique_ptr<Sidecar> start(std::string name, const Body& body);

  data::Holder& holder() { return holder_; }
  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }  // 0: it has ended
  bool ready() const { return ready_; }
  int descriptor() const { return gone_ ? -1 : holder_.descriptor(); }

  // Why the trainer must be stopped, once for each reason; none: nothing new.
  std::optional<std::string> listen();
  void ended(int status);  // waitpid() said so
  // Dismisses it, and waits for its end.
  void leave();

 private:
  Sidecar(std::string name, pid_t pid, data::Descriptor socket)
      : name_(std::move(name)), pid_(pid), holder_(std::move(socket)) {}

  std::string name_;
  pid_t pid_;
  std::optional<int> status_;
  data::Holder holder_;
  bool ready_ = false;
  bool gone_ = false;
};

// The body of the views' process: spotter-fastfile, which lies beside this program.
void be_views(const data::PlaneSettings& settings, int socket);

// Takes the channels of mode `fast_file` out of it, with their part of its memory.
data::PlaneSettings split_views(data::PlaneSettings& settings);

}  // namespace spotter::command
