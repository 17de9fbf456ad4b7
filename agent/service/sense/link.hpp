// The trainer's datagrams (wire/datagram.hpp), as they come.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter::sense {

// How many lines of the journal somebody may cause: 600 at once, and as many more a minute.
class Allowance {
 public:
  bool take(std::chrono::steady_clock::time_point now);

 private:
  double left_ = 600;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

class Link {
 public:
  struct Receiver {
    std::function<void(decide::Happening)> deliver;
    std::function<void(const wire::TrainerMessage&)> observe;  // all of it, for the status
    // The trainer's files are watched: they are the checkpoints, whatever else it says. Two
    // accounts with steps of their own would make neither count.
    bool guarded = false;
    // Is that process the guard, in whose name X_SPOTTER_GUARD speaks?
    std::function<bool(pid_t)> is_guard = [](pid_t) { return false; };
  };

  Link(asio::io_context& context, Receiver receiver)
      : socket_(context), resting_(context), receiver_(std::move(receiver)) {}
  ~Link();

  // Binds `path` so that only `user` (and root) can send to it, and begins to listen. Who sends is
  // asked of the kernel, too: what comes from others, or as the guard's from another process, is
  // dropped, which the journal has once. Failure: errno.
  std::error_code open(const std::string& path, const std::string& user);

  // Takes what has arrived already: the trainer's last words come before the news of its end.
  void drain();

 private:
  // As the kernel has it: neither can be forged but by root.
  struct Sender {
    pid_t pid = 0;
    uid_t uid = 0;
  };
  struct Datagram {
    std::size_t bytes = 0;
    std::optional<Sender> sender;
  };

  void wait();
  void rest();
  std::optional<Datagram> receive();
  bool may_speak(const std::optional<Sender>& sender) const;
  void take(const Datagram& datagram);
  void limit(wire::TrainerMessage& message);
  void deliver(const wire::TrainerMessage& message);

  asio::local::datagram_protocol::socket socket_;
  asio::steady_timer resting_;
  Receiver receiver_;
  std::string path_;
  uid_t user_ = 0;  // the trainer's
  // Apart: words, however many, cost no checkpoint its line.
  struct Allowances {
    Allowance words, events;
  } of_trainer_, of_guard_;
  int taken_ = 0;  // datagrams since the last rest
  bool said_refused_ = false, said_limited_ = false;
  std::array<char, wire::longest_datagram + 1> buffer_{};
};

}  // namespace spotter::sense
