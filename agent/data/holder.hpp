// The other end of the data plane's socket: keeps a second write end of each FIFO open until the
// plane reports the end of its stream. So a plane that dies never looks like an epoch's end.
#pragma once

#include <map>
#include <string>

#include "agent/data/messages.hpp"

namespace spotter::data {

class Holder {
 public:
  explicit Holder(Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }

  struct Report {
    enum class Kind {
      None,    // nothing more now
      Ready,   // the FIFOs are there: the trainer may start
      Failed,  // no more data will come; `text` says why
      Gone,    // the data plane has died; its FIFOs are still open here
    } kind = Kind::None;
    std::string text;
  };
  // The next message of the plane; to be called until Kind::None.
  Report listen();

  // Names the process that must have ended before any FIFO closes, if the holder dies.
  void send_trainer(int pid) {
    (void)send_message(socket_.get(), "trainer " + std::to_string(pid));
  }
  // Says that the trainer has ended, so that the data plane can end.
  void leave();

 private:
  Descriptor socket_;
  std::map<std::string, Descriptor> held_;
};

}  // namespace spotter::data
