#include "agent/service/loop.hpp"

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <vector>

#include "agent/decide/invariants.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter {

void Loop::deliver(decide::Event event) {
  queue_.push_back(std::move(event));
  if (busy_) return;
  busy_ = true;
  while (!queue_.empty()) {
    const decide::Event next = std::move(queue_.front());
    queue_.pop_front();
    take(next);
  }
  busy_ = false;
  set_timer();
}

void Loop::take(const decide::Event& event) {
  const std::size_t before = state_.stage.index();
  decide::step(state_, event, policy_, effects_);
  if (const char* words = decide::broken_invariant(state_)) {
    io::note(wire::event("invariant-broken"), spdlog::level::critical,
             "broken invariant: {}. The agent stops and is started again", words);
    std::abort();
  }
  const std::vector<decide::Effect> effects(effects_.begin(), effects_.end());
  for (const decide::Effect& effect : effects) callbacks_.perform(effect);
  callbacks_.trace(event, state_, before);
}

// Asio's timer uses the monotonic clock, which stops while the machine is suspended. Any event that
// wakes the loop reads `now` again, so a deadline is late at most by the step after the resume.
void Loop::set_timer() {
  if (state_.wake_at == timer_at_) return;
  timer_at_ = state_.wake_at;
  if (timer_at_ == decide::kNever) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(std::max(timer_at_ - callbacks_.now(), Duration::zero()));
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    timer_at_ = decide::kNever;
    deliver({callbacks_.now(), {}, decide::Woke{}});
  });
}

}  // namespace spotter
