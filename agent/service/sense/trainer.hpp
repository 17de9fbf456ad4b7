// Receives the trainer's datagrams (wire/datagram.hpp).
#pragma once

#include <sys/types.h>

#include <array>
#include <functional>

#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/supervise/client.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter::sense {

// A rate limit of journal lines: 600 at once, and 600 more a minute.
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
    std::function<void(const wire::TrainerMessage&)> observe;  // all messages, for the status
    // The senders whose checkpoints count. Counting both for one trainer would mix their different
    // steps: where both may report, the trainer's word ends the guard's.
    bool of_trainer = true;
    bool of_guard = true;
    bool in_gang = false;  // else what is reported of one is nothing
    // Is that process the guard, which alone may send X_SPOTTER_GUARD?
    std::function<bool(pid_t)> is_guard = [](pid_t) { return false; };
    // Gets the reports of the gang that this machine is a member of.
    std::function<void(const wire::GangReport&)> gang = [](const wire::GangReport&) {};
  };

  Link(asio::io_context& context, Receiver receiver)
      : socket_(context), resting_(context), receiver_(std::move(receiver)) {}
  ~Link();

  // Binds `path` so that only `user` (and root) can send to it, and begins to receive. Also checks
  // the sender with the kernel: drops messages of other users, and the guard's from other
  // processes, which is logged once. Failure: errno.
  std::error_code open(const std::string& path, const std::string& user);

  // Handles what has arrived already: the trainer's last messages come before its end.
  void drain();

 private:
  // The sender as the kernel reports it: only root can forge it.
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
  bool may_send(Allowance& allowance, const char* who = "the trainer");
  void limit(wire::TrainerMessage& message);
  void deliver(const wire::TrainerMessage& message);

  asio::local::datagram_protocol::socket socket_;
  asio::steady_timer resting_;
  Receiver receiver_;
  std::string path_;
  uid_t user_ = 0;  // the trainer's
  // Separate, so that many notes do not cost a checkpoint its line.
  struct Allowances {
    Allowance words, events, gang;
  } of_trainer_, of_guard_;
  int taken_ = 0;         // datagrams since the last rest
  bool reports_ = false;  // the trainer, its checkpoints
  bool said_refused_ = false, said_limited_ = false;
  std::array<char, wire::longest_datagram + 1> buffer_{};
};

// Waits for the supervisor's end through its pidfd, then reports how the trainer ended.
class TrainerEnd {
 public:
  using Ended = std::function<void(decide::TrainerEnded)>;
  using Expect = std::function<supervise::Expectation()>;  // called when it has ended

  // `shown`: whoever reads the journal has seen the trainer's output (`spotter run`).
  TrainerEnd(asio::io_context& context, std::string run_directory, bool shown, Expect expect,
             Ended ended)
      : context_(context),
        run_directory_(std::move(run_directory)),
        shown_(shown),
        expect_(std::move(expect)),
        ended_(std::move(ended)),
        timer_(context) {}

  void watch();

 private:
  void look();
  void look_soon();

  asio::io_context& context_;
  std::string run_directory_;
  bool shown_;
  Expect expect_;
  Ended ended_;
  std::optional<asio::posix::stream_descriptor> pidfd_;
  asio::steady_timer timer_;
};

}  // namespace spotter::sense
