#include "agent/launch/estimates.hpp"

#include <algorithm>

namespace spotter::launch {

std::optional<Published> of_this_run(std::optional<Published> published) {
  if (published && published->stage == "finished") published.reset();
  return published;
}

Remaining work_of(const config::Deadline& deadline, const std::optional<Published>& published,
                  const std::optional<Outlook>& before, double since) {
  const Progress progress = published ? published->progress : Progress{};
  const Remaining left = work_left(progress, deadline);
  if (progress.total > 0 || !before) return left;
  if (!published || published->stage != "training") return before->work;
  const double least = work_left({.trained = 1e9}, deadline).hours;
  const double hours = std::max(before->work.hours - std::max(since, 0.0), least);
  // By launch.work less the hours trained it may be far more, or less, than by the pace until now.
  if (published->has_step && left.hours > hours) return left;
  const double part = before->work.hours > 0 ? hours / before->work.hours : 1;
  return {hours, std::min(1.0, before->work.part * part)};
}

void keep_prices(Prospect& prospect, KnownPrices known, const std::optional<Outlook>& before) {
  if (!before) return;
  if (!known.on_demand && before->on_demand > 0) prospect.on_demand = before->on_demand;
  if (known.spot || before->spot <= 0) return;
  prospect.spot = before->spot;
  prospect.zone = before->zone;
}

}  // namespace spotter::launch
