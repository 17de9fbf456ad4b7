#include "tests/capacity/online.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <random>

namespace spotter::capacity {
namespace {

constexpr double kLate = 1e6;  // dollars of a deadline that is missed

double ends_in_a_tick(double hours, double tick) { return 1 - std::exp(-tick / hours); }

}  // namespace

Market draw(const Chain& chain, unsigned seed, std::size_t ticks) {
  std::mt19937 chance(seed);
  std::uniform_real_distribution<> even(0, 1);
  Market market;
  MarketPool& pool = market.pools.emplace_back();
  bool there = even(chance) * (chain.available + chain.absent) < chain.available;
  for (std::size_t tick = 0; tick < ticks; ++tick) {
    pool.available.push_back(there);
    pool.dollars.push_back(chain.spot);
    const double lasts = there ? chain.available : chain.absent;
    if (even(chance) < ends_in_a_tick(lasts, market.tick)) there = !there;
  }
  return market;
}

Online::Online(const Chain& chain, const Task& task, double tick, std::size_t parts)
    : chain_(chain),
      tick_(tick),
      parts_(parts),
      work_(static_cast<std::size_t>(std::llround(task.work / tick * static_cast<double>(parts)))),
      start_(
          static_cast<std::size_t>(std::llround(task.start / tick * static_cast<double>(parts)))),
      ticks_(task.ticks),
      now_(at(work_ + 1, None, false), kLate),
      later_(now_),
      choices_((ticks_ + 1) * now_.size()) {
  assert(start_ <= parts_);
  std::fill_n(now_.begin(), at(1, None, false), 0);  // no work is left
  for (std::size_t left = 1; left <= ticks_; ++left) {
    expect();
    choose(left);
  }
}

void Online::expect() {
  const double goes = ends_in_a_tick(chain_.available, tick_);
  const double comes = ends_in_a_tick(chain_.absent, tick_);
  for (std::size_t work = 0; work <= work_; ++work)
    for (std::size_t runs = 0; runs < kinds_of_runs; ++runs) {
      const double there = now_[at(work, runs, true)];
      const double absent = now_[at(work, runs == Spot ? std::size_t{None} : runs, false)];
      later_[at(work, runs, true)] = (1 - goes) * there + goes * absent;
      later_[at(work, runs, false)] = comes * there + (1 - comes) * absent;
    }
}

void Online::choose(std::size_t ticks_left) {
  const auto left = [&](std::size_t work, bool starts) {
    const std::size_t gain = starts ? parts_ - start_ : parts_;
    return work > gain ? work - gain : 0;
  };
  for (std::size_t work = 1; work <= work_; ++work)
    for (std::size_t runs = 0; runs < kinds_of_runs; ++runs)
      for (const bool there : {false, true}) {
        double least = later_[at(work, None, there)];
        std::uint8_t choice = None;
        const auto take = [&](double dollars, Runs which) {
          const double all = dollars * tick_ + later_[at(left(work, runs != which), which, there)];
          if (all < least) least = all, choice = which;
        };
        take(1, Paid);
        if (there) take(chain_.spot, Spot);
        now_[at(work, runs, there)] = least;
        choices_[ticks_left * now_.size() + at(work, runs, there)] = choice;
      }
}

class OnlinePolicy : public Policy {
 public:
  explicit OnlinePolicy(const Online& online) : online_(online) {}

  Pick choose(const std::vector<Pool>& pools, const Position& it) override {
    const auto parts = static_cast<double>(online_.parts_);
    const auto left = static_cast<std::size_t>(std::llround(it.time / online_.tick_));
    const auto work = static_cast<std::size_t>(std::llround(it.work / online_.tick_ * parts));
    const auto runs = it.use == Use::Spot       ? Online::Spot
                      : it.use == Use::OnDemand ? Online::Paid
                                                : Online::None;
    const std::size_t state = Online::at(work, runs, pools.front().available);
    switch (online_.choices_[left * online_.now_.size() + state]) {
      case Online::Spot:
        return {.use = Use::Spot};
      case Online::Paid:
        return {.use = Use::OnDemand};
      default:
        return {};
    }
  }

 private:
  const Online& online_;
};

std::unique_ptr<Policy> Online::policy() const { return std::make_unique<OnlinePolicy>(*this); }

}  // namespace spotter::capacity
