// The agent's one loop: takes an event, steps, performs, traces. One thread, one queue.
#pragma once

#include <deque>
#include <functional>

#include "agent/decide/step.hpp"
#include "agent/io/asio.hpp"

namespace spotter {

class Loop {
 public:
  struct Callbacks {
    std::function<Time()> now;
    std::function<void(const decide::Effect&)> perform;
    // After each step; `before` is the stage's index before it.
    std::function<void(const decide::Event&, const decide::State&, std::size_t before)> trace;
  };

  Loop(asio::io_context& context, decide::State state, const decide::Policy& policy,
       Callbacks callbacks)
      : timer_(context),
        state_(std::move(state)),
        policy_(policy),
        callbacks_(std::move(callbacks)) {}

  // May be called from within perform(): events are handled one at a time.
  void deliver(decide::Event event);

  const decide::State& state() const { return state_; }

 private:
  void take(const decide::Event& event);
  void set_timer();

  asio::steady_timer timer_;
  decide::State state_;
  const decide::Policy& policy_;
  Callbacks callbacks_;
  decide::Effects effects_;
  std::deque<decide::Event> queue_;
  bool busy_ = false;
  Time timer_at_ = decide::kNever;
};

}  // namespace spotter
