// The policies that are played beside ours, to compare it with.
#include <algorithm>
#include <optional>

#include "tests/capacity/market.hpp"

namespace spotter::capacity {
namespace {

constexpr Pick kOnDemand{.use = Use::OnDemand};
constexpr Pick kNothing{};

Pick spot_of(std::size_t pool) { return {.use = Use::Spot, .pool = pool}; }

std::optional<std::size_t> cheapest(const std::vector<Pool>& pools) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < pools.size(); ++i)
    if (pools[i].available && (!best || pools[i].dollars < pools[*best].dollars)) best = i;
  return best;
}

struct OnDemand : Policy {
  Pick choose(const std::vector<Pool>&, const Position&) override { return kOnDemand; }
};

// Stays on spot capacity while it lasts, and keeps the deadline.
class Careful : public Policy {
 public:
  Careful(const Market& market, const Task& task)
      : tick_(market.tick),
        start_(task.start),
        work_(task.work),
        time_(static_cast<double>(task.ticks) * market.tick) {}

  Pick choose(const std::vector<Pool>& pools, const Position& it) override {
    const double slack = it.time - it.work;
    if (it.use == Use::Spot && slack >= start_) return spot_of(it.pool);
    const auto spot = pick(pools);
    if (spot && slack >= 2 * start_ && may_leave(it)) return spot_of(*spot);
    if (!spot && slack - tick_ >= start_ && may_wait(it)) return kNothing;
    return kOnDemand;
  }

 protected:
  virtual std::optional<std::size_t> pick(const std::vector<Pool>& pools) {
    return cheapest(pools);
  }
  virtual bool may_leave(const Position&) { return true; }  // what runs on demand
  virtual bool may_wait(const Position&) = 0;

  double tick_, start_, work_, time_;
};

class Greedy : public Careful {
 public:
  using Careful::Careful;

 protected:
  bool may_leave(const Position& it) override { return it.use != Use::OnDemand; }
  bool may_wait(const Position& it) override { return it.use != Use::OnDemand; }
};

class OnePool : public Greedy {
 public:
  OnePool(const Market& market, const Task& task, std::size_t pool)
      : Greedy(market, task), pool_(pool) {}

 protected:
  std::optional<std::size_t> pick(const std::vector<Pool>& pools) override {
    return pools[pool_].available ? std::optional(pool_) : std::nullopt;
  }

 private:
  std::size_t pool_;
};

class UniformProgress : public Careful {
 public:
  using Careful::Careful;

 protected:
  // An instance on demand is kept until it is ahead by what two starts take.
  bool may_wait(const Position& it) override {
    const double ahead = it.use == Use::OnDemand ? 2 * start_ : 0;
    return work_ - it.work >= (time_ - it.time + ahead) * work_ / time_;
  }
};

}  // namespace

std::unique_ptr<Policy> only_on_demand() { return std::make_unique<OnDemand>(); }

std::unique_ptr<Policy> greedy(const Market& market, const Task& task) {
  return std::make_unique<Greedy>(market, task);
}

std::unique_ptr<Policy> one_pool(const Market& market, const Task& task, std::size_t pool) {
  return std::make_unique<OnePool>(market, task, pool);
}

std::unique_ptr<Policy> uniform_progress(const Market& market, const Task& task) {
  return std::make_unique<UniformProgress>(market, task);
}

}  // namespace spotter::capacity
