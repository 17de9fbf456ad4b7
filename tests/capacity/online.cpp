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
  market.move = chain.move;
  for (std::size_t i = 0; i < chain.pools; ++i) {
    MarketPool pool{
        .name = "pool " + std::to_string(i), .available = {}, .dollars = {}, .place = i};
    bool there = even(chance) * (chain.available + chain.absent) < chain.available;
    for (std::size_t tick = 0; tick < ticks; ++tick) {
      pool.available.push_back(there);
      pool.dollars.push_back(chain.spot);
      const double lasts = there ? chain.available : chain.absent;
      if (even(chance) < ends_in_a_tick(lasts, market.tick)) there = !there;
    }
    market.pools.push_back(std::move(pool));
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
      masks_(std::size_t{1} << chain.pools),
      ticks_(task.ticks),
      chances_(masks_ * masks_, 1),
      now_((work_ + 1) * states(), kLate),
      later_(now_),
      choices_((ticks_ + 1) * now_.size()) {
  assert(start_ <= parts_);
  const double goes = ends_in_a_tick(chain.available, tick);
  const double comes = ends_in_a_tick(chain.absent, tick);
  for (std::size_t from = 0; from < masks_; ++from)
    for (std::size_t to = 0; to < masks_; ++to)
      for (std::size_t i = 0; i < chain.pools; ++i) {
        const bool was = (from >> i & 1) != 0, is = (to >> i & 1) != 0;
        const double changes = was ? goes : comes;
        chances_[from * masks_ + to] *= was == is ? 1 - changes : changes;
      }
  std::fill_n(now_.begin(), states(), 0);  // no work is left
  for (std::size_t left = 1; left <= ticks_; ++left) {
    expect();
    choose(left);
  }
}

void Online::expect() {
  for (std::size_t work = 0; work <= work_; ++work)
    for (std::size_t place = 0; place <= chain_.pools; ++place)
      for (std::size_t runs = 0; runs < kinds_of_runs; ++runs) {
        if (runs == Spot && place == chain_.pools) continue;
        for (std::size_t from = 0; from < masks_; ++from) {
          double& sum = later_[at(work, place, runs, from)] = 0;
          for (std::size_t to = 0; to < masks_; ++to) {
            const bool lost = runs == Spot && (to >> place & 1) == 0;
            sum += chances_[from * masks_ + to] * now_[at(work, place, lost ? None : runs, to)];
          }
        }
      }
}

void Online::choose(std::size_t ticks_left) {
  const auto left = [&](std::size_t work, bool starts) {
    const std::size_t gain = starts ? parts_ - start_ : parts_;
    return work > gain ? work - gain : 0;
  };
  for (std::size_t work = 1; work <= work_; ++work)
    for (std::size_t place = 0; place <= chain_.pools; ++place)
      for (std::size_t runs = 0; runs < kinds_of_runs; ++runs)
        for (std::size_t mask = 0; mask < masks_; ++mask) {
          if (runs == Spot && (place == chain_.pools || (mask >> place & 1) == 0)) continue;
          double least = later_[at(work, place, None, mask)];
          std::uint8_t choice = 0;
          const auto take = [&](double dollars, std::size_t which) {
            if (dollars < least) least = dollars, choice = static_cast<std::uint8_t>(which);
          };
          take(tick_ + later_[at(left(work, runs != Paid), place, Paid, mask)], 1);
          for (std::size_t to = 0; to < chain_.pools; ++to) {
            if ((mask >> to & 1) == 0) continue;
            const bool stays = runs == Spot && to == place;
            const double move = place == chain_.pools || to == place ? 0 : chain_.move;
            take(chain_.spot * tick_ + move + later_[at(left(work, !stays), to, Spot, mask)],
                 to + 2);
          }
          now_[at(work, place, runs, mask)] = least;
          choices_[ticks_left * now_.size() + at(work, place, runs, mask)] = choice;
        }
}

class OnlinePolicy : public Policy {
 public:
  explicit OnlinePolicy(const Online& online) : online_(online) {}

  Pick choose(const std::vector<Pool>& pools, const Position& it) override {
    const auto parts = static_cast<double>(online_.parts_);
    const auto left = static_cast<std::size_t>(std::llround(it.time / online_.tick_));
    const auto work = static_cast<std::size_t>(std::llround(it.work / online_.tick_ * parts));
    std::size_t mask = 0;
    for (std::size_t i = 0; i < pools.size(); ++i) mask |= std::size_t{pools[i].available} << i;
    const auto runs = it.use == Use::Spot       ? Online::Spot
                      : it.use == Use::OnDemand ? Online::Paid
                                                : Online::None;
    const std::size_t place = it.place.value_or(online_.chain_.pools);
    const std::size_t state = online_.at(work, place, runs, mask);
    const std::size_t choice = online_.choices_[left * online_.now_.size() + state];
    if (choice < 2) return {.use = choice == 0 ? Use::Nothing : Use::OnDemand};
    return {.use = Use::Spot, .pool = choice - 2};
  }

 private:
  const Online& online_;
};

std::unique_ptr<Policy> Online::policy() const { return std::make_unique<OnlinePolicy>(*this); }

}  // namespace spotter::capacity
