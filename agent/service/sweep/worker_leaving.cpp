#include "agent/service/sweep/worker_parts.hpp"

namespace spotter {
namespace {

constexpr int most_idle_looks = 5;  // a lease apart: about as long as an unrenewed claim is valid

}  // namespace

// Not from within an order. A running trainer ends first (`at_once` asks it to), then this goes on.
void Worker::begin_leaving(bool at_once) {
  if (experiments_.is_at_work()) {
    if (at_once) experiments_.stop();
  } else if (claims_) {
    experiments_.withdraw();
    claims_->deliver(sweep::Leave{});
  } else {
    experiments_.hurry();  // it clears what an earlier worker left
  }
}

void Worker::idle(std::size_t unfinished) {
  if (leaving_ != Leaving::No) return;
  unfinished_ = unfinished;
  if (unfinished == 0) {
    leaving_ = Leaving::AllDone;
  } else if (++idle_looks_ < most_idle_looks) {
    if (idle_looks_ > 1) return;
    return say("nothing is free: others are at work on the last " + std::to_string(unfinished));
  } else {
    leaving_ = Leaving::NothingFree;
  }
  asio::post(context_, [this] { begin_leaving(false); });
}

// Returns when the machine ends: if restarted before, it would claim what it cannot finish.
asio::awaitable<bool> Worker::leave_fleet(std::optional<std::uint32_t> needed) {
  auto leaving = machine_.leave_fleet(needed);
  if (!co_await std::move(leaving)) co_return false;
  say("this machine leaves the fleet");
  while (leaving_ != Leaving::Asked) {
    auto waiting = pause(std::chrono::seconds(1));
    co_await std::move(waiting);
  }
  co_return true;
}

asio::awaitable<void> Worker::leave_unfit() {
  exit_status_ = 1;
  auto leaving = leave_fleet(std::nullopt);
  co_await std::move(leaving);
}

asio::awaitable<bool> Worker::leave() {
  const Leaving why = std::exchange(leaving_, Leaving::No);
  machine_.set_idle(true);
  if (claims_->are_foreign()) exit_status_ = 2;
  if (why == Leaving::Asked || claims_->are_foreign()) co_return true;
  if (why == Leaving::AllDone) {
    say("all " + std::to_string(attempts_.count()) + " have ended: the fleet is cancelled");
    auto cancelling = retry_until_done("everything has ended, but the fleet is not cancelled",
                                       [this] { return machine_.cancel_fleet(); });
    co_await std::move(cancelling);
    co_return true;
  }
  if (why == Leaving::NothingFree) {
    auto leaving = leave_fleet(static_cast<std::uint32_t>(unfinished_));
    if (co_await std::move(leaving)) co_return true;
    // In no fleet, or in one that needs it: waits until an experiment is given back.
  }
  if (why == Leaving::Broken) {
    auto leaving = leave_unfit();
    co_await std::move(leaving);
    co_return true;
  }
  Duration wait = why == Leaving::NothingFree ? job_.claims->lease : between_tries;
  if (why == Leaving::Interrupted) {
    say("releasing the work: the instance is about to end");
    wait = std::max(between_tries, deadline_ + policy_.spared_after - now());
  }
  for (const Time until = now() + wait; now() < until && leaving_ == Leaving::No;) {
    auto waiting = pause(std::chrono::seconds(1));
    co_await std::move(waiting);
  }
  co_return leaving_ == Leaving::Asked;
}

void Worker::noticed(const decide::Happening& what) {
  const auto* notice = std::get_if<decide::NoticeSeen>(&what);
  if (notice == nullptr || leaving_ == Leaving::Asked) return;
  leaving_ = Leaving::Interrupted;
  deadline_ = notice->deadline;
  begin_leaving(false);  // a running trainer gets the notice, too
}

void Worker::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int) {
    if (error) return;
    say("asked to stop: releasing the work");
    leaving_ = Leaving::Asked;
    begin_leaving(true);
    await_signal();
  });
}

}  // namespace spotter
