#include "agent/capacity/values.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

namespace spotter::capacity {
namespace {

constexpr std::size_t kColumns = 161;
constexpr std::size_t kRowsOfStart = 2;  // the slack that a start takes
constexpr std::size_t kMostRows = 1000 * kRowsOfStart;
constexpr double kLate = 1000;  // what missing the deadline costs, in hours on demand

// While it runs on demand, spot capacity that is not used goes as well.
double goes_an_hour(const Terms& terms) {
  return std::max(terms.losses_an_hour * (1 - terms.replaced), 1e-9);
}

}  // namespace

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
