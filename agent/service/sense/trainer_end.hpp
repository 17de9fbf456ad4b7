// Waits for the supervisor's end through its pidfd, then reports how the trainer ended.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/supervise/client.hpp"

namespace spotter::sense {

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
