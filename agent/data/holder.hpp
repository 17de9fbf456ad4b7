// The other end of the data plane's socket: keeps a second write end of each FIFO until its stream
// has been told to be over. So a data plane that dies never looks like the end of an epoch.
#pragma once

#include <map>
#include <string>

#include "agent/data/words.hpp"

namespace spotter::data {

class Holder {
 public:
  explicit Holder(Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }

  struct News {
    enum class Kind {
      None,    // nothing more now
      Ready,   // the FIFOs are there: the trainer may start
      Failed,  // `text` says why: no more data will come
      Gone,    // the data plane has died; what it held is still open here
    } kind = Kind::None;
    std::string text;
  };
  // What has happened; to be called until there is nothing more.
  News listen();

  // The process that must be gone before any FIFO closes, should the holder die.
  void tell_trainer(int pid) { (void)say(socket_.get(), "trainer " + std::to_string(pid)); }
  // The trainer is gone: so may the data plane.
  void leave();

 private:
  Descriptor socket_;
  std::map<std::string, Descriptor> held_;
};

}  // namespace spotter::data
