#include "agent/capacity/planner.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <optional>

namespace spotter::capacity {
namespace {

// The part of an hour on demand, as long as no price is known.
constexpr double kUsualSpot = 0.35;
constexpr double kLeastSpot = 1e-3;
// The share of losses that are over before the next tick.
constexpr double kReplaced = 0.5;

// Terms whose logarithms round to the same eighth share one table.
double rounded(double value) {
  constexpr double eighths = 8;
  return std::exp2(std::round(eighths * std::log2(value)) / eighths);
}
// A table for at least so many hours.
double hours_of_table(double hours) {
  return std::exp2(std::ceil(2 * std::log2(std::max(hours, 0.1))) / 2);
}

// The cost of a choice: of the tick that begins, in which what is there now stays there, and of
// where that leads.
class Outlook {
 public:
  Outlook(const Values& values, const Terms& terms, double tick, const Standing& standing)
      : values_(values), terms_(terms), tick_(tick), standing_(standing) {}

  double spot(bool starts) const {
    const Step it = step(starts);
    const double lost = Terms::chance(terms_.losses_an_hour, it.hours);
    return terms_.spot * it.hours + lost * nothing(terms_.replaced, it.work, it.slack) +
           (1 - lost) * value(Use::Spot, true, it.work, it.slack);
  }

  double on_demand(bool starts, bool spot_is_there) const {
    const Step it = step(starts);
    const double goes = terms_.losses_an_hour * (1 - terms_.replaced);
    const double there = spot_is_there ? 1 - Terms::chance(goes, it.hours)
                                       : Terms::chance(terms_.returns_an_hour, it.hours);
    return terms_.on_demand * it.hours + there * value(Use::OnDemand, true, it.work, it.slack) +
           (1 - there) * value(Use::OnDemand, false, it.work, it.slack);
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
    return spot_share * value(Use::Nothing, true, work, slack) +
           (1 - spot_share) * value(Use::Nothing, false, work, slack);
  }
  // In dollars: a table's values are in hours on demand.
  double value(Use use, bool spot, double work, double slack) const {
    return terms_.on_demand * values_.of(use, spot, work, slack);
  }

  const Values& values_;
  const Terms& terms_;
  double tick_;
  const Standing& standing_;
};

constexpr std::size_t kColumns = 161;
constexpr std::size_t kRowsOfStart = 2;  // the slack that a start takes
constexpr std::size_t kMostRows = 1000 * kRowsOfStart;
constexpr double kLate = 1000;  // what missing the deadline costs, in hours on demand

// While it runs on demand, spot capacity that is not used goes as well.
double goes_an_hour(const Terms& terms) {
  return std::max(terms.losses_an_hour * (1 - terms.replaced), 1e-9);
}

}  // namespace

Choice choose(const Spells& spells, bool spot, const Settings& settings, const Standing& standing,
              const ValuesOf& values_of) {
  assert(settings.on_demand > 0 && settings.start > 0 && settings.tick > 0);
  Spells seen = spells;
  seen.see(spot);
  seen.pass(settings.tick);
  const double start = settings.start, on_demand = settings.on_demand;
  const double slack = standing.time - standing.work;
  const bool cheaper = spot && settings.spot < on_demand;
  const bool paid = standing.use == Use::OnDemand, here = standing.use == Use::Spot;
  // The time left after a loss or a tick of waiting must be enough for a start on demand.
  const bool may_wait = slack - settings.tick >= start;
  const bool may_use_spot = cheaper && slack - (here ? 0 : start) >= start;
  if (!may_wait && !may_use_spot) return {.use = Use::OnDemand, .forced = true};

  const double dollars = spot || settings.spot > 0 ? settings.spot : kUsualSpot * on_demand;
  const Terms terms{.spot = std::max(dollars, kLeastSpot * on_demand),
                    .on_demand = on_demand,
                    .start = start,
                    .losses_an_hour = seen.losses_an_hour(),
                    .returns_an_hour = seen.returns_an_hour(),
                    .replaced = kReplaced};
  const Terms round{.spot = rounded(terms.spot / on_demand),
                    .on_demand = 1,
                    .start = start,
                    .losses_an_hour = rounded(terms.losses_an_hour),
                    .returns_an_hour = rounded(terms.returns_an_hour),
                    .replaced = kReplaced};
  const double most_work = hours_of_table(standing.work), most_slack = hours_of_table(slack);
  std::optional<Values> own;
  const Values& values = values_of ? values_of(round, most_work, most_slack)
                                   : own.emplace(round, most_work, most_slack);
  const Outlook outlook(values, terms, settings.tick, standing);
  Choice choice{.use = Use::OnDemand, .expected = outlook.on_demand(!paid, cheaper)};
  if (may_use_spot && outlook.spot(!here) < choice.expected)
    choice = {.use = Use::Spot, .expected = outlook.spot(!here)};
  if (may_wait && outlook.wait() < choice.expected)
    choice = {.use = Use::Nothing, .expected = outlook.wait()};
  return choice;
}

Spells::Spells(Prior available, Prior absent, double half_life)
    : available_{available.count, available.count * available.hours},
      absent_{absent.count, absent.count * absent.hours},
      half_life_(half_life) {}

Spells::Spells(Seen available, Seen absent, double half_life, bool now)
    : available_(available), absent_(absent), half_life_(half_life), now_(now), known_(true) {}

void Spells::see(bool available) {
  if (known_ && available != now_) (now_ ? available_ : absent_).ends += 1;
  now_ = available;
  known_ = true;
}

// Knowledge of outages fades only in outages: capacity that is never lost teaches nothing of them.
void Spells::pass(double hours) {
  if (!known_) return;
  Seen& sum = now_ ? available_ : absent_;
  const double kept = std::exp2(-hours / half_life_);
  sum = {sum.ends * kept, sum.hours * kept + hours};
}

double Terms::chance(double an_hour, double hours) { return 1 - std::exp(-an_hour * hours); }

Values::Run::Run(double dollars, double rate, double hours)
    : until_(dollars / rate), stays_(std::exp(-rate * hours)) {}

Values::Values(const Terms& terms, double work, double slack)
    : terms_(terms),
      work_step_(std::max(work, terms.start) / (kColumns - 1)),
      slack_step_(terms.start / kRowsOfStart),
      rows_(std::min(static_cast<std::size_t>(std::max(slack, 0.0) / slack_step_) + 2, kMostRows)),
      start_fails_(Terms::chance(terms.losses_an_hour, terms.start)),
      found_waiting_(Terms::chance(terms.returns_an_hour, slack_step_)),
      on_spot_(terms.spot, terms.losses_an_hour, work_step_),
      paid_(terms.on_demand, terms.returns_an_hour, work_step_),
      paid_beside_spot_(terms.on_demand, goes_an_hour(terms), work_step_),
      cells_(rows_ * kColumns) {
  assert(terms.losses_an_hour > 0 && terms.returns_an_hour > 0 && terms.start > 0);
  // In column 0 no work is left.
  for (std::size_t row = 0; row < rows_; ++row)
    for (std::size_t column = 1; column < kColumns; ++column) fill(row, column);
}

const Values::Cell& Values::cell(std::size_t row, std::size_t column) const {
  return cells_[row * kColumns + column];
}

double Values::lost(const Cell& at) const {
  return terms_.replaced * at.none_beside_spot + (1 - terms_.replaced) * at.none;
}

void Values::fill(std::size_t row, std::size_t column) {
  const Terms& t = terms_;
  const double late = t.on_demand * (static_cast<double>(column) * work_step_ + kLate);
  double start_spot = late, start_paid = late, wait = late;
  if (row >= kRowsOfStart) {
    const Cell& started = cell(row - kRowsOfStart, column);
    start_spot =
        t.spot * t.start + start_fails_ * lost(started) + (1 - start_fails_) * started.on_spot;
    start_paid = t.on_demand * t.start + started.paid;
  }
  if (row > 0) {
    const Cell& later = cell(row - 1, column);
    wait = found_waiting_ * later.none_beside_spot + (1 - found_waiting_) * later.none;
  }
  const Cell& next = cell(row, column - 1);  // a step of the work later
  Cell& it = cells_[row * kColumns + column];
  it.none = std::min(wait, start_paid);
  it.none_beside_spot = std::min(it.none, start_spot);
  // An event within the step comes, on the average, when half of the step is done.
  const double lost_within = std::midpoint(lost(it), lost(next));
  it.on_spot = std::min(on_spot_.cost(next.on_spot, lost_within), start_paid);
  const double gone_within = next.paid + t.on_demand * work_step_ / 2;
  const double stays = paid_beside_spot_.cost(next.paid_beside_spot, gone_within);
  it.paid_beside_spot = std::min({stays, start_spot, it.none});
  const double found_within = std::midpoint(it.paid_beside_spot, next.paid_beside_spot);
  it.paid = std::min(paid_.cost(next.paid, found_within), it.none);
}

double Values::of(Use use, bool spot, double work, double slack) const {
  const double right = std::clamp(work / work_step_, 0.0, static_cast<double>(kColumns - 1));
  const double up = std::clamp(slack / slack_step_, 0.0, static_cast<double>(rows_ - 1));
  const auto column = std::min(static_cast<std::size_t>(right), kColumns - 2);
  const auto row = std::min(static_cast<std::size_t>(up), rows_ - 2);
  const double x = right - static_cast<double>(column), y = up - static_cast<double>(row);
  const auto at = [&](const Cell& it) {
    if (use == Use::Spot) return it.on_spot;
    if (use == Use::OnDemand) return spot ? it.paid_beside_spot : it.paid;
    return spot ? it.none_beside_spot : it.none;
  };
  const double below = std::lerp(at(cell(row, column)), at(cell(row, column + 1)), x);
  const double above = std::lerp(at(cell(row + 1, column)), at(cell(row + 1, column + 1)), x);
  return std::lerp(below, above, y);
}

}  // namespace spotter::capacity
