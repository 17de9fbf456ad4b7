#include "tests/capacity/optimum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spotter::capacity {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using Costs = std::vector<double>;  // by work done, in parts of a tick

// The cheapest ways to stand at each amount of work: with nothing running and the data in each
// place, and with each instance in each phase of its start, counted in ticks.
class Frontier {
 public:
  Frontier(const Market& market, const Task& task, std::size_t parts)
      : market_(market),
        parts_(parts),
        total_(count(task.work, 1 - 1e-6)),
        start_(count(task.start, 0.5)),
        phases_((start_ + parts - 1) / parts + 1),
        places_(places_in(market)),
        ways_(market.pools.size() + places_),
        idle_(places_, Costs(total_ + 1, kNever)),
        now_(ways_ * phases_, Costs(total_ + 1, kNever)),
        next_(now_) {
    for (Costs& costs : idle_) costs[0] = 0;  // wherever it begins
  }

  void pass(std::size_t tick) {
    for (std::size_t i = 0; i < now_.size(); ++i) take_least(idle_[place_of(i / phases_)], now_[i]);
    const auto before = idle_;
    for (std::size_t to = 0; to < places_; ++to)
      for (std::size_t from = 0; from < places_; ++from)
        if (from != to) take_least(idle_[to], before[from], market_.move);
    for (Costs& costs : next_) std::fill(costs.begin(), costs.end(), kNever);
    for (std::size_t way = 0; way < ways_; ++way) {
      const bool spot = way < market_.pools.size();
      if (spot && !market_.pools[way].available[tick]) continue;
      const double dollars = spot ? market_.pools[way].dollars[tick] : market_.on_demand;
      for (std::size_t phase = 0; phase < phases_; ++phase) run(way, phase, dollars * market_.tick);
    }
    std::swap(now_, next_);
  }

  double least() const {
    double least = kNever;
    for (const auto& all : {idle_, now_})
      for (const Costs& costs : all) least = std::min(least, costs[total_]);
    return least;
  }

 private:
  std::size_t count(double hours, double round) const {
    return static_cast<std::size_t>(hours / market_.tick * static_cast<double>(parts_) + round);
  }
  static void take_least(Costs& to, const Costs& from, double more = 0) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::min(to[i], from[i] + more);
  }
  static std::size_t places_in(const Market& market) {
    std::size_t last = 0;
    for (const MarketPool& it : market.pools) last = std::max(last, it.place);
    return last + 1;
  }
  std::size_t place_of(std::size_t way) const {
    const std::size_t pools = market_.pools.size();
    return way < pools ? market_.pools[way].place : way - pools;
  }
  // One tick of an instance that began `phase` ticks ago; in the last phase, or more.
  void run(std::size_t way, std::size_t phase, double dollars) {
    const std::size_t begun = phase * parts_;
    const std::size_t gain =
        std::min(parts_, begun + parts_ > start_ ? begun + parts_ - start_ : 0);
    const Costs& before = phase == 0 ? idle_[place_of(way)] : now_[way * phases_ + phase - 1];
    const Costs* steady = phase + 1 == phases_ ? &now_[way * phases_ + phase] : nullptr;
    Costs& to = next_[way * phases_ + phase];
    for (std::size_t work = 0; work < total_; ++work) {
      const double least = std::min(before[work], steady ? (*steady)[work] : kNever);
      double& it = to[std::min(total_, work + gain)];
      it = std::min(it, least + dollars);
    }
  }

  const Market& market_;
  std::size_t parts_, total_, start_, phases_, places_, ways_;
  std::vector<Costs> idle_;        // by the place where the data is
  std::vector<Costs> now_, next_;  // by way, then phase; the last ways are on demand, in each place
};

}  // namespace

double optimum(const Market& market, const Task& task, std::size_t parts) {
  Frontier frontier(market, task, parts);
  for (std::size_t i = 0; i < task.ticks; ++i) frontier.pass(task.first + i);
  return frontier.least();
}

}  // namespace spotter::capacity
