// What a watcher takes for so when a part of what it asks for cannot be known now: what the look
// before knew goes before a guess. Pure.
#pragma once

#include <optional>
#include <string>

#include "agent/launch/deadline.hpp"

namespace spotter::launch {

// What an agent of the job published last.
struct Published {
  Progress progress;
  std::string stage;      // decide::name() of it
  bool has_step = false;  // the trainer has said a step since it began
  InstanceId instance = {};
  std::optional<wire::WallTime> at = {};  // by AWS's clock
};

// None: it is of an earlier run, which has finished. REQUIRES: the job is not done.
std::optional<Published> of_this_run(std::optional<Published> published);

// What is left to do, `since` hours after the look before. A trainer that has just begun has said
// neither step nor total yet. REQUIRES: deadline.work.
Remaining work_of(const config::Deadline& deadline, const std::optional<Published>& published,
                  const std::optional<Outlook>& before, double since);

// Which prices of a prospect AWS has said; the others are guesses.
struct KnownPrices {
  bool on_demand = true, spot = true;
};
void keep_prices(Prospect& prospect, KnownPrices known, const std::optional<Outlook>& before);

}  // namespace spotter::launch
