// The named pipe from which one epoch of a channel is read.
#pragma once

#include <sys/uio.h>

#include <map>
#include <optional>
#include <span>

#include "agent/io/files.hpp"

namespace spotter::data {

using io::Descriptor;

class Fifo {
 public:
  // Replaces whatever is at `path`. The write end is open, so a reader's open() does not wait.
  static Result<Fifo> make(const fs::path& path);

  const fs::path& path() const { return path_; }
  int descriptor() const { return write_end_.get(); }
  bool has_reader() const;
  // Bytes that lie in the pipe.
  std::size_t unread() const;

  enum class Sent { Some, Full, NoReader };
  // Sends as much as fits now. `splice`: moves the pages themselves, which must not change until
  // they were read (unread()); else copies. `bytes` becomes the number sent.
  Sent send(std::span<const iovec> pieces, bool splice, std::size_t& bytes);

  void remove_name() const;

 private:
  explicit Fifo(fs::path path) : path_(std::move(path)) {}

  fs::path path_;
  Descriptor write_end_;
};

// Messages between the data plane and the holder of its FIFOs, over a SOCK_SEQPACKET socket.
//
//   plane:  "made NAME" with the FIFO's write end; "ended NAME": its stream is complete and
//           verified; "failed TEXT": no more data will come, and no end of file either
//   holder: "trainer PID": that process and its session must have ended before a FIFO closes;
//           "bye": they have. A holder that leaves without "bye" has died.

struct Message {
  std::string text;
  Descriptor file;  // the descriptor sent with it
};

// False: the other side is gone.
bool send_message(int socket, const std::string& text, int file = -1);

// None: there is no message now, or (`gone`) the other side has left.
std::optional<Message> receive_message(int socket, bool& gone);

// The other end of the data plane's socket: keeps a second write end of each FIFO open until the
// plane reports the end of its stream. So a plane that dies never looks like an epoch's end.
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
  // Says that the trainer has ended, so that the data plane can end; it may still fail before.
  void leave() { (void)send_message(socket_.get(), "bye"); }

 private:
  Descriptor socket_;
  std::map<std::string, Descriptor> held_;
};

}  // namespace spotter::data
