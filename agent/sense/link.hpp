// The trainer's datagrams (wire/datagram.hpp), as they come.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter::sense {

class Link {
 public:
  struct Receiver {
    std::function<void(decide::Happening)> deliver;
    std::function<void(const wire::TrainerMessage&)> observe;  // all of it, for the status
    // The trainer's files are watched: they are the checkpoints, whatever else it says. Two
    // accounts with steps of their own would make neither count.
    bool guarded = false;
  };

  Link(asio::io_context& context, Receiver receiver)
      : socket_(context), receiver_(std::move(receiver)) {}
  ~Link();

  // Binds `path` so that only `user` (and root) can send to it, and begins to listen. Failure:
  // errno.
  std::error_code open(const std::string& path, const std::string& user);

  // Takes what has arrived already: the trainer's last words come before the news of its end.
  void drain();

 private:
  void wait();
  void take(std::size_t bytes);

  asio::local::datagram_protocol::socket socket_;
  Receiver receiver_;
  std::string path_;
  std::array<char, wire::longest_datagram + 1> buffer_{};
};

}  // namespace spotter::sense
