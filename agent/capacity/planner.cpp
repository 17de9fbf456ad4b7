#include "agent/capacity/planner.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

namespace spotter::capacity {
namespace {

// Another pool is worth a start when an hour there costs that much of an hour here.
constexpr double kWorthMoving = 0.75;
// Terms whose logarithms round to the same eighth share one table.
constexpr double kEighths = 8;
// Tables that are kept however large they are: of one of them a planner still reads.
constexpr std::size_t kFewest = 8;

int rounded(double value) { return static_cast<int>(std::lround(kEighths * std::log2(value))); }
double unrounded(int value) { return std::exp2(value / kEighths); }
// A table for at least so many hours.
int hours_of_table(double hours) {
  return static_cast<int>(std::ceil(2 * std::log2(std::max(hours, 0.1))));
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

Planner::Planner(std::size_t pools, const Settings& settings, std::shared_ptr<Tables> tables)
    : settings_(settings),
      now_(pools),
      spells_(pools, Spells(settings.available, settings.absent, settings.half_life)),
      any_(settings.available, settings.absent, settings.half_life),
      usual_spot_(settings.usual_spot > 0 ? settings.usual_spot : settings.on_demand * 0.35),
      tables_(tables ? std::move(tables) : std::make_shared<Tables>()) {
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

// The price of an hour of work, with the starts that losses cost.
double Planner::dollars_an_hour(std::size_t pool) const {
  return now_[pool].dollars * (1 + spells_[pool].losses_an_hour() * settings_.start);
}

double Planner::dollars_of_move(std::size_t pool, const Standing& standing) const {
  return standing.place && *standing.place != now_[pool].place ? settings_.move : 0;
}

double Planner::dollars_an_hour(std::size_t pool, const Standing& standing) const {
  const double hours = std::min(standing.work, 1 / spells_[pool].losses_an_hour());
  return dollars_an_hour(pool) + dollars_of_move(pool, standing) / std::max(hours, settings_.tick);
}

std::optional<std::size_t> Planner::best_pool(const Standing& standing) const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < now_.size(); ++i) {
    if (!now_[i].available || now_[i].dollars >= settings_.on_demand) continue;
    if (!best || dollars_an_hour(i, standing) < dollars_an_hour(*best, standing)) best = i;
  }
  const std::size_t here = standing.pool;
  const bool stays = best && standing.use == Use::Spot && now_[here].available &&
                     dollars_an_hour(*best, standing) > kWorthMoving * dollars_an_hour(here);
  return stays ? here : best;
}

double Planner::share_elsewhere(const Standing& standing) const {
  if (!standing.place) return 0;
  const auto elsewhere =
      std::ranges::count_if(now_, [&](const Pool& it) { return it.place != *standing.place; });
  return static_cast<double>(elsewhere) / static_cast<double>(now_.size());
}

// After a loss the next capacity may be elsewhere: the moves to come are a part of its price.
Terms Planner::terms(std::optional<std::size_t> pool, const Standing& standing) const {
  const double losses = pool ? spells_[*pool].losses_an_hour() : any_.losses_an_hour();
  const double spot = pool ? now_[*pool].dollars : usual_spot_;
  const double moves = losses * share_elsewhere(standing) * settings_.move;
  return {.spot = std::max(std::min(spot + moves, std::max(spot, settings_.on_demand)),
                           1e-3 * settings_.on_demand),
          .on_demand = settings_.on_demand,
          .start = settings_.start,
          .losses_an_hour = losses,
          .returns_an_hour = any_.returns_an_hour(),
          .replaced = replaced_ / losses_};
}

Terms Planner::terms_in(std::size_t place) const {
  Terms terms{.spot = std::max(usual_spot_, 1e-3 * settings_.on_demand),
              .on_demand = settings_.on_demand,
              .start = settings_.start,
              .losses_an_hour = 0,
              .returns_an_hour = 0};
  double pools = 0;
  for (std::size_t i = 0; i < now_.size(); ++i) {
    if (now_[i].place != place) continue;
    ++pools;
    terms.returns_an_hour += spells_[i].returns_an_hour();
    terms.losses_an_hour += spells_[i].losses_an_hour();
  }
  terms.losses_an_hour /= std::max(pools, 1.0);
  return terms;
}

const Values& Tables::of(const Terms& terms, double work, double slack) {
  const Key key(rounded(terms.spot / terms.on_demand), rounded(terms.losses_an_hour),
                rounded(terms.returns_an_hour), static_cast<int>(std::lround(terms.replaced * 10)),
                hours_of_table(work), hours_of_table(slack), terms.start);
  ++asked_;
  if (const auto known = known_.find(key); known != known_.end()) {
    known->second.asked = asked_;
    return known->second.values;
  }
  const auto& [spot, losses, returns, replaced, columns, rows, start] = key;
  const Terms round{.spot = unrounded(spot),
                    .on_demand = 1,
                    .start = start,
                    .losses_an_hour = unrounded(losses),
                    .returns_an_hour = unrounded(returns),
                    .replaced = replaced / 10.0};
  const double most_work = std::exp2(columns / 2.0), most_slack = std::exp2(rows / 2.0);
  // Those that were not asked for the longest give their memory; the last of them gives its to the
  // new one, as memory is costly to get.
  std::optional<Values> spare;
  while (known_.size() >= kFewest && bytes_ >= most_bytes_) {
    const auto oldest =
        std::ranges::min_element(known_, {}, [](const auto& it) { return it.second.asked; });
    bytes_ -= oldest->second.values.bytes();
    spare = std::move(oldest->second.values);
    known_.erase(oldest);
  }
  Values made = spare ? Values(round, most_work, most_slack, std::move(*spare))
                      : Values(round, most_work, most_slack);
  bytes_ += made.bytes();
  return known_.emplace(key, Table{std::move(made), asked_}).first->second.values;
}

Choice Planner::choose(const Standing& standing) {
  const double start = settings_.start;
  const double slack = standing.time - standing.work;
  const auto pool = best_pool(standing);
  const bool paid = standing.use == Use::OnDemand;
  const bool here = pool && standing.use == Use::Spot && standing.pool == *pool;
  // The time left after a loss or a tick of waiting must be enough for a start on demand.
  const bool may_wait = slack - settings_.tick >= start;
  const bool may_use_spot = pool && slack - (here ? 0 : start) >= start;
  if (!may_wait && !may_use_spot) return {.use = Use::OnDemand, .forced = true};

  const Terms seen = terms(pool, standing);
  const Outlook outlook(tables_->of(seen, standing.work, slack), seen, settings_.tick, standing);
  Choice choice{.use = Use::OnDemand, .expected = outlook.on_demand(!paid, pool.has_value())};
  if (may_use_spot && outlook.spot(!here) < choice.expected)
    choice = {.use = Use::Spot, .pool = *pool, .expected = outlook.spot(!here)};
  if (may_wait && outlook.wait() < choice.expected)
    choice = {.use = Use::Nothing, .expected = outlook.wait()};

  // Whichever it is, sooner or later it brings the data to what is there now; or the data stays.
  const double move = pool ? dollars_of_move(*pool, standing) : 0;
  if (move <= 0 || share_elsewhere(standing) >= 1) return choice;
  choice.expected += move;
  const Terms own = terms_in(*standing.place);
  const Outlook stays(tables_->of(own, standing.work, slack), own, settings_.tick, standing);
  if (const double expected = stays.on_demand(!paid, false); expected < choice.expected)
    choice = {.use = Use::OnDemand, .expected = expected};
  if (may_wait && stays.wait() < choice.expected)
    choice = {.use = Use::Nothing, .expected = stays.wait()};
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
    : Values(terms, work, slack, std::vector<Cell>()) {}

Values::Values(const Terms& terms, double work, double slack, Values&& spare)
    : Values(terms, work, slack, std::move(spare.cells_)) {}

Values::Values(const Terms& terms, double work, double slack, std::vector<Cell> memory)
    : terms_(terms),
      work_step_(std::max(work, terms.start) / (kColumns - 1)),
      slack_step_(terms.start / kRowsOfStart),
      rows_(std::min(static_cast<std::size_t>(std::max(slack, 0.0) / slack_step_) + 2, kMostRows)),
      start_fails_(Terms::chance(terms.losses_an_hour, terms.start)),
      found_waiting_(Terms::chance(terms.returns_an_hour, slack_step_)),
      on_spot_(terms.spot, terms.losses_an_hour, work_step_),
      paid_(terms.on_demand, terms.returns_an_hour, work_step_),
      paid_beside_spot_(terms.on_demand, goes_an_hour(terms), work_step_),
      cells_(std::move(memory)) {
  assert(terms.losses_an_hour > 0 && terms.returns_an_hour > 0 && terms.start > 0);
  cells_.resize(rows_ * kColumns);
  for (std::size_t row = 0; row < rows_; ++row) {
    cells_[row * kColumns] = {};  // no work is left
    for (std::size_t column = 1; column < kColumns; ++column) fill(row, column);
  }
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
