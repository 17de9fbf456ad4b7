// The agent's one loop: next event -> step -> perform -> trace. One thread, one queue.
#pragma once

#include <deque>
#include <functional>

#include "agent/decide/step.hpp"
#include "agent/io/asio.hpp"

namespace spotter {

class Loop {
 public:
  struct Hands {
    std::function<Time()> now;
    std::function<void(const decide::Effect&)> perform;
    // After each step; `before` is the stage's index before it.
    std::function<void(const decide::Event&, const decide::State&, std::size_t before)> trace;
  };

  Loop(asio::io_context& context, decide::State state, const decide::Policy& policy, Hands hands)
      : timer_(context), state_(std::move(state)), policy_(policy), hands_(std::move(hands)) {}

  // May be called from within perform(): events are taken one after the other.
  void deliver(decide::Event event);

  const decide::State& state() const { return state_; }

 private:
  void take(const decide::Event& event);
  void set_timer();

  asio::steady_timer timer_;
  decide::State state_;
  const decide::Policy& policy_;
  Hands hands_;
  decide::Effects effects_;
  std::deque<decide::Event> queue_;
  bool busy_ = false;
  Time timer_at_ = decide::kNever;
};

}  // namespace spotter
