// Jobs with a deadline in markets of chance: none is missed.
#include <gtest/gtest.h>

#include <random>

#include "agent/launch/fallback.hpp"

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;
using Action = Fallback::Action;
using State = WatchedMachine::State;

const config::OnDemand when_needed{config::OnDemand::When::WhenNeeded, {}};
const FleetId own("fleet-own"), extra("fleet-on-demand");
const wire::WallTime noon(1'764'000'000s);

Prospect prospect_of(std::chrono::minutes time, double work) {
  Prospect prospect;
  prospect.due = noon + time;
  prospect.work = {work, 0.5};
  prospect.on_demand = 1;
  prospect.spot = 0.39;
  prospect.zone = "us-west-2b";
  return prospect;
}

// A world of minutes: instances boot, one of them has the volume, spot capacity comes and goes, and
// what is lost without a notice is trained again from the newest checkpoint.
class World {
 public:
  explicit World(unsigned seed) : chance_(seed) {
    work_ = std::uniform_int_distribution<>(30, 900)(chance_);
    checkpoint_ = std::uniform_int_distribution<>(1, 20)(chance_);
    here_ = std::uniform_int_distribution<>(5, 400)(chance_);
    gone_ = std::uniform_int_distribution<>(5, 400)(chance_);
    const int spare = std::uniform_int_distribution<>(0, 600)(chance_);
    due_ = noon + std::chrono::minutes(work_ + boot + attach + 2 * interval + 2 + spare);
    until_ = spell();
  }

  // Whether it was done in time.
  bool run() {
    for (int minute = 0; minute < 5000 && durable_ < work_; ++minute) {
      now_ = noon + std::chrono::minutes(minute);
      if (minute >= until_) {
        capacity_ = !capacity_;
        until_ = minute + spell();
      }
      if (minute % interval == 0) look();
      live();
    }
    return durable_ >= work_ && now_ < due_;
  }
  int cost() const { return 10 * on_demand_minutes_ + 3 * spot_minutes_; }
  int work() const { return work_; }

 private:
  static constexpr int boot = 8, attach = 6, interval = 10;
  struct Machine {
    int age = -1;  // minutes; -1: it is not there
    bool is_there() const { return age >= 0; }
  };
  enum class Holder { None, Spot, OnDemand };

  int spell() {
    const double mean = capacity_ ? here_ : gone_;
    return 1 + static_cast<int>(std::exponential_distribution<>(1 / mean)(chance_));
  }

  void look() {
    Watched seen;
    seen.now = now_;
    seen.own = WatchedFleet{own, rests_ ? 0 : 1};
    if (asked_) seen.beside = {{extra, 1}};
    const auto add = [&](const Machine& it, bool spot, const char* id) {
      const State state = it.age < 1 ? State::Starting : State::Running;
      if (!it.is_there()) return;
      const wire::WallTime launched = now_ - std::chrono::minutes(it.age);
      seen.machines.push_back({InstanceId(id), spot, state, launched});
    };
    add(spot_, true, "i-0123456789abcdef0");
    add(on_demand_, false, "i-0aaaaaaaaaaaaaaaa");
    seen.mark = mark_;
    Prospect prospect = prospect_of(0min, (work_ - durable_) / 60.0);
    prospect.due = due_;
    prospect.spot = 0.3;
    seen.prospect = prospect;
    const Fallback next = decide_fallback(when_needed, 15min, seen);
    mark_ = mark_of(tag_of(next.mark));
    if (next.action == Action::AskOnDemand) asked_ = true;
    if (next.action == Action::Rest) rests_ = true;
    if (next.action == Action::Wake) rests_ = false;
    if (next.action == Action::End) {
      asked_ = false;
      leave(Holder::OnDemand, on_demand_);
    }
    if (rests_) leave(Holder::Spot, spot_);
  }

  // Announced: the last checkpoint is of the last step.
  void leave(Holder holder, Machine& it) {
    it = {};
    if (holder_ != holder) return;
    durable_ = done_;
    holder_ = Holder::None;
  }

  void live() {
    if (asked_) ++on_demand_.age, ++on_demand_minutes_;
    if (!capacity_ && spot_.is_there()) {
      if (std::bernoulli_distribution(0.5)(chance_))
        done_ = holder_ == Holder::Spot ? durable_ : done_;
      leave(Holder::Spot, spot_);
    }
    if (capacity_ && !rests_) ++spot_.age, ++spot_minutes_;
    if (holder_ == Holder::None) {
      if (on_demand_.age >= boot)
        take(Holder::OnDemand);
      else if (spot_.age >= boot)
        take(Holder::Spot);
      return;
    }
    if (++held_ <= attach) return;
    ++done_;
    if (done_ % checkpoint_ == 0 || done_ >= work_) durable_ = done_;
  }
  void take(Holder holder) {
    holder_ = holder;
    held_ = 0;
    done_ = durable_;
  }

  std::mt19937 chance_;
  int work_, checkpoint_, here_, gone_, until_ = 0;
  int done_ = 0, durable_ = 0, held_ = 0;
  int on_demand_minutes_ = 0, spot_minutes_ = 0;
  bool capacity_ = false, asked_ = false, rests_ = false;
  Machine spot_, on_demand_;
  Holder holder_ = Holder::None;
  wire::WallTime due_, now_ = noon;
  std::optional<WatchMark> mark_;
};

TEST(WhenNeeded, MissesNoDeadlineInAnyMarket) {
  double cost = 0, work = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    World world(seed);
    EXPECT_TRUE(world.run()) << seed;
    cost += world.cost();
    work += 10 * world.work();
  }
  EXPECT_LT(cost / work, 0.85) << "and costs less than on demand alone";
}

}  // namespace
}  // namespace spotter::launch
