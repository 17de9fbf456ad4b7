// What `spotter watch` wrote down of this job: on what it runs next and when, and the prices that
// this depends on. It is a tag of the fleet, which the instance's role may read; no fleet and no
// right to it mean that nothing is said.
#pragma once

#include <functional>
#include <string>

#include "agent/decide/state.hpp"
#include "agent/io/asio.hpp"
#include "agent/job/job.hpp"
#include "agent/service/act/cloud.hpp"

namespace spotter {

class WatcherSays {
 public:
  using Say = std::function<void(std::string)>;  // a sentence; empty: nobody watches
  // REQUIRES: `cloud` outlives it. Asks nothing for a job that needs no watcher.
  WatcherSays(asio::io_context& context, act::Cloud& cloud, const config::Job& job, Say say)
      : context_(context),
        cloud_(cloud),
        wanted_(job.launch && job.launch->on_demand.needs_watcher()),
        say_(std::move(say)) {}

  // To be called after each step of the core: asks from time to time, while the trainer runs.
  void on_event(const decide::State& state, Time now);

 private:
  asio::awaitable<void> ask(Fleet fleet);

  asio::io_context& context_;
  act::Cloud& cloud_;
  bool wanted_;
  Say say_;
  Time next_{};
  bool asking_ = false;
};

}  // namespace spotter
