#include "agent/capacity/planner.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace spotter::capacity {
namespace {

// Another pool is worth a start when an hour there costs that much of an hour here.
constexpr double kWorthMoving = 0.75;
// Terms whose logarithms round to the same eighth share one table.
constexpr double kEighths = 8;

int rounded(double value) { return static_cast<int>(std::lround(kEighths * std::log2(value))); }
double unrounded(int value) { return std::exp2(value / kEighths); }
// A table for at least so many hours.
int hours_of_table(double hours) {
  return static_cast<int>(std::ceil(2 * std::log2(std::max(hours, 0.1))));
}

// What a choice costs: the tick that begins, in which what is there now stays there, and the value
// of where that leads.
class Outlook {
 public:
  Outlook(const Values& values, const Terms& terms, double tick, const Standing& standing)
      : values_(values), terms_(terms), tick_(tick), standing_(standing) {}

  double spot(bool starts) const {
    const Step it = step(starts);
    const double lost = Terms::chance(terms_.losses_an_hour, it.hours);
    return terms_.spot * it.hours + lost * nothing(terms_.replaced, it.work, it.slack) +
           (1 - lost) * values_.of(Use::Spot, true, it.work, it.slack);
  }

  double on_demand(bool starts, bool spot_is_there) const {
    const Step it = step(starts);
    const double goes = terms_.losses_an_hour * (1 - terms_.replaced);
    const double there = spot_is_there ? 1 - Terms::chance(goes, it.hours)
                                       : Terms::chance(terms_.returns_an_hour, it.hours);
    return terms_.on_demand * it.hours +
           there * values_.of(Use::OnDemand, true, it.work, it.slack) +
           (1 - there) * values_.of(Use::OnDemand, false, it.work, it.slack);
  }

  double wait() const {
    const double slack = standing_.time - standing_.work - tick_;
    return nothing(Terms::chance(terms_.returns_an_hour, tick_), standing_.work, slack);
  }

 private:
  struct Step {
    double hours;        // until the next look, or until the start is over
    double work, slack;  // left after that
  };
  Step step(bool starts) const {
    const double start = starts ? terms_.start : 0;
    const double hours = std::max(tick_, start);
    return {hours, std::max(0.0, standing_.work - (hours - start)),
            standing_.time - standing_.work - start};
  }
  double nothing(double spot_share, double work, double slack) const {
    return spot_share * values_.of(Use::Nothing, true, work, slack) +
           (1 - spot_share) * values_.of(Use::Nothing, false, work, slack);
  }

  const Values& values_;
  const Terms& terms_;
  double tick_;
  const Standing& standing_;
};

}  // namespace

Planner::Planner(std::size_t pools, const Settings& settings)
    : settings_(settings),
      now_(pools),
      spells_(pools, Spells(settings.available, settings.absent, settings.half_life)),
      any_(settings.available, settings.absent, settings.half_life),
      usual_spot_(settings.usual_spot > 0 ? settings.usual_spot : settings.on_demand * 0.35) {
  assert(pools > 0 && settings.on_demand > 0 && settings.start > 0 && settings.tick > 0);
}

void Planner::remember(const Spells& spells) {
  any_ = spells;
  if (spells_.size() == 1) spells_.front() = spells;
}

void Planner::see(const std::vector<Pool>& pools) {
  assert(pools.size() == now_.size());
  const bool any = std::any_of(pools.begin(), pools.end(), [](auto& it) { return it.available; });
  double cheapest = settings_.on_demand;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const bool lost = now_[i].available && !pools[i].available;
    losses_ += lost ? 1 : 0;
    replaced_ += lost && any ? 1 : 0;
    spells_[i].see(pools[i].available);
    spells_[i].pass(settings_.tick);
    if (pools[i].available) cheapest = std::min(cheapest, pools[i].dollars);
  }
  any_.see(any);
  any_.pass(settings_.tick);
  if (any) usual_spot_ += (cheapest - usual_spot_) / 10;
  now_ = pools;
}

// Of an hour of work, with the start that a loss costs.
double Planner::dollars_an_hour(std::size_t pool) const {
  return now_[pool].dollars * (1 + spells_[pool].losses_an_hour() * settings_.start);
}

std::optional<std::size_t> Planner::best_pool(const Standing& standing) const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < now_.size(); ++i) {
    if (!now_[i].available || now_[i].dollars >= settings_.on_demand) continue;
    if (!best || dollars_an_hour(i) < dollars_an_hour(*best)) best = i;
  }
  const std::size_t here = standing.pool;
  const bool stays = best && standing.use == Use::Spot && now_[here].available &&
                     dollars_an_hour(*best) > kWorthMoving * dollars_an_hour(here);
  return stays ? here : best;
}

Terms Planner::terms(std::optional<std::size_t> pool) const {
  return {.spot = std::max(pool ? now_[*pool].dollars : usual_spot_, 1e-3 * settings_.on_demand),
          .on_demand = settings_.on_demand,
          .start = settings_.start,
          .losses_an_hour = pool ? spells_[*pool].losses_an_hour() : any_.losses_an_hour(),
          .returns_an_hour = any_.returns_an_hour(),
          .replaced = replaced_ / losses_};
}

const Values& Planner::values(const Terms& terms, double work, double slack) {
  const std::tuple key(rounded(terms.spot / terms.on_demand), rounded(terms.losses_an_hour),
                       rounded(terms.returns_an_hour),
                       static_cast<int>(std::lround(terms.replaced * 10)), hours_of_table(work),
                       hours_of_table(slack));
  ++asked_;
  if (const auto known = known_.find(key); known != known_.end()) {
    known->second.asked = asked_;
    return known->second.values;
  }
  const auto& [spot, losses, returns, replaced, columns, rows] = key;
  Terms round = terms;
  round.spot = unrounded(spot) * terms.on_demand;
  round.losses_an_hour = unrounded(losses);
  round.returns_an_hour = unrounded(returns);
  round.replaced = replaced / 10.0;
  const double most_work = std::exp2(columns / 2.0), most_slack = std::exp2(rows / 2.0);
  constexpr std::size_t most_tables = 8;  // of up to 13 MB each
  if (known_.size() < most_tables)
    return known_.emplace(key, Table{Values(round, most_work, most_slack), asked_})
        .first->second.values;
  // The one that was not asked for the longest gives its memory, which is costly to get.
  const auto oldest =
      std::ranges::min_element(known_, {}, [](const auto& it) { return it.second.asked; });
  auto node = known_.extract(oldest);
  node.key() = key;
  Values spare = std::move(node.mapped().values);
  node.mapped() = {Values(round, most_work, most_slack, std::move(spare)), asked_};
  return known_.insert(std::move(node)).position->second.values;
}

Choice Planner::choose(const Standing& standing) {
  const double start = settings_.start;
  const double slack = standing.time - standing.work;
  const auto pool = best_pool(standing);
  const bool paid = standing.use == Use::OnDemand;
  const bool here = pool && standing.use == Use::Spot && standing.pool == *pool;
  // What a loss or a tick of waiting leaves must be enough for a start on demand.
  const bool may_wait = slack - settings_.tick >= start;
  const bool may_use_spot = pool && slack - (here ? 0 : start) >= start;
  if (!may_wait && !may_use_spot) return {.use = Use::OnDemand, .forced = true};

  const Terms seen = terms(pool);
  const Outlook outlook(values(seen, standing.work, slack), seen, settings_.tick, standing);
  Choice choice{.use = Use::OnDemand, .expected = outlook.on_demand(!paid, pool.has_value())};
  if (may_use_spot && outlook.spot(!here) < choice.expected)
    choice = {.use = Use::Spot, .pool = *pool, .expected = outlook.spot(!here)};
  if (may_wait && outlook.wait() < choice.expected)
    choice = {.use = Use::Nothing, .expected = outlook.wait()};
  return choice;
}

}  // namespace spotter::capacity
