#include "tests/capacity/watched.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "agent/launch/deadline.hpp"

namespace spotter::capacity {
namespace {

using launch::PlaceSeen;
using launch::PriceStep;
using Spot = launch::WatchMark::Spot;
using std::chrono::seconds;

const wire::WallTime kBegin{seconds{1'000'000'000}};

seconds seconds_of(double hours) { return seconds(std::llround(hours * 3600)); }

class Watched : public Policy {
 public:
  Watched(const Market& market, const Task& task, const Watching& watching)
      : market_(market),
        task_(task),
        watching_(watching),
        settling_(launch::settling_time({config::OnDemand::When::WhenNeeded, {}},
                                        seconds_of(task.start))),
        runs_in_(watching.regions.size()),
        tables_(watching.tables ? watching.tables : std::make_shared<Tables>()) {
    for (const std::string& region : watching.regions)
      places_.push_back({region, launch::WatchedFleet{FleetId("fleet"), 0}, {}});
    places_.front().own->target = 1;
    mark_.since = kBegin;
  }

  Choice choose(const std::vector<Pool>& pools, const Standing& standing) override {
    if (is_used_up(standing)) {
      for (std::size_t i = 0; i < places_.size(); ++i) quiet(i);
      return {};
    }
    now_ = kBegin + seconds_of(static_cast<double>(looks_++) * market_.tick);
    now_pools_ = &pools;
    const std::size_t here = launch::place_of_job(places_);
    for (std::size_t i = 0; i < places_.size(); ++i) look_at(i, i == here && rests_);
    mark_look(here, standing);
    const Use choice = mark_.outlook->choice;
    if (choice == Use::OnDemand) {
      for (std::size_t i = 0; i < places_.size(); ++i)
        if (i != here && places_[i].asks()) quiet(i);  // what was tried for its price
      rests_ = rests_ || places_[here].spot;
      if (!rests_) look_elsewhere();
      return {.use = Use::OnDemand, .place = here};
    }
    // What rests is woken, and the on-demand instance stays until the next look.
    if (std::exchange(rests_, false)) return {.use = Use::OnDemand, .place = here};
    const auto step = launch::decide_price_move(places_, price_look(standing), true, settling_);
    if (step.action == PriceStep::Action::None) look_elsewhere();
    carry_out(step);
    const auto& runs = runs_in_[launch::place_of_job(places_)];
    return runs ? Choice{.use = Use::Spot, .pool = *runs} : Choice{};
  }
  // What is tried for its price.
  double beside() const override {
    const std::size_t here = launch::place_of_job(places_);
    double dollars = 0;
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (i != here && places_[i].spot) dollars += places_[i].spot->dollars;
    return dollars;
  }

 private:
  // The job's agent ends it then.
  bool is_used_up(const Standing& standing) const {
    return watching_.dollars && watching_.gives_way == config::Deadline::GivesWay::Deadline &&
           standing.paid >= *watching_.dollars;
  }

  // Its prices; and the instance that the fleet there has, or gets now, if it asks for one.
  void look_at(std::size_t place, bool rests) {
    const std::vector<Pool>& pools = *now_pools_;
    PlaceSeen& it = places_[place];
    std::optional<std::size_t> cheapest, best;
    for (std::size_t i = 0; i < pools.size(); ++i) {
      if (pools[i].place != place) continue;
      if (!cheapest || pools[i].dollars < pools[*cheapest].dollars) cheapest = i;
      if (pools[i].available && (!best || pools[i].dollars < pools[*best].dollars)) best = i;
    }
    it.dollars = cheapest ? pools[*cheapest].dollars : 0;
    auto& runs = runs_in_[place];
    if (!it.asks() || rests) best.reset(), runs.reset();
    if (!runs || !pools[*runs].available) {
      it.spot.reset();
      runs = best;
      if (runs)
        it.spot = {now_, 0, InstanceId("i-" + std::to_string(looks_)), market_.pools[*runs].type};
    }
    if (it.spot) it.spot->dollars = pools[*runs].dollars;
  }

  // As decide_fallback() does, whose instances are there as soon as they are asked for.
  void mark_look(std::size_t here, const Standing& standing) {
    const PlaceSeen& it = places_[here];
    const Spot spot = rests_ ? Spot::Rests : it.spot ? Spot::Runs : Spot::None;
    const InstanceId instance = it.spot ? it.spot->id : InstanceId();
    launch::Sight sight{.now = now_,
                        .runs = standing.use,
                        .spot = it.spot.has_value(),
                        .before = mark_.outlook,
                        .looked = rests_ || mark_.spot == Spot::Rests ? now_ : mark_.looked,
                        .had_spot = rests_ || mark_.spot == Spot::Rests ? it.spot.has_value()
                                                                        : mark_.spot == Spot::Runs};
    if (sight.runs == Use::Nothing && sight.spot) sight.runs = Use::Spot;
    if (spot != mark_.spot || instance != mark_.instance) mark_.since = now_;
    mark_.looked = now_;
    mark_.spot = spot;
    mark_.instance = instance;
    const double time = static_cast<double>(task_.ticks) * market_.tick;
    std::optional<double> left;
    if (watching_.dollars) left = std::max(0.0, *watching_.dollars - standing.paid);
    mark_.outlook = launch::look_ahead({.due = kBegin + seconds_of(time),
                                        .work = {standing.work, standing.work / task_.work},
                                        .start = task_.start,
                                        .interval = market_.tick,
                                        .on_demand = market_.on_demand,
                                        .spot = it.spot ? it.spot->dollars : it.dollars,
                                        .zone = {},
                                        .dollars_left = left,
                                        .gives_way = watching_.gives_way},
                                       sight, tables_);
    places_[here].mark = mark_;
  }

  void look_elsewhere() {
    if (const auto move = launch::decide_move(places_, mark_, settling_)) go(move->to);
  }

  launch::PriceLook price_look(const Standing& standing) {
    const std::size_t here = launch::place_of_job(places_);
    const launch::Outlook& outlook = *mark_.outlook;
    if (places_[here].spot)
      for (std::size_t i = 0; i < places_.size(); ++i)
        places_[i].of_its_type = cheapest_of(i, places_[here].spot->type);
    return {.now = now_,
            .may_move = watching_.price_moves,
            .settled = mark_.spot == Spot::Runs && now_ - mark_.since >= settling_,
            .dollars = places_[here].spot ? places_[here].spot->dollars : 0,
            .work = standing.work,
            .lasts = outlook.available.hours / outlook.available.ends,
            .start = task_.start,
            .slack = std::chrono::duration<double>(outlook.latest - now_).count() / 3600,
            .transfer = {.home = watching_.gigabytes}};
  }
  double cheapest_of(std::size_t place, const std::string& type) const {
    double least = 0;
    for (std::size_t i = 0; i < now_pools_->size(); ++i) {
      const Pool& it = (*now_pools_)[i];
      if (it.place == place && market_.pools[i].type == type && (least == 0 || it.dollars < least))
        least = it.dollars;
    }
    return least;
  }

  void carry_out(const PriceStep& step) {
    using Action = PriceStep::Action;
    launch::WatchedFleet& there = *places_[step.to].own;
    if (step.action == Action::Try) {
      there.target = 1;
      there.rested.reset();
      there.note = step.note;
    }
    if (step.action == Action::Go) {
      there.note = step.note;
      go(step.to);
    }
    if (step.action == Action::Withdraw) quiet(step.to);
    assert(step.action != Action::Return && step.to < places_.size());
  }
  void go(std::size_t to) {
    const std::size_t here = launch::place_of_job(places_);
    mark_ = launch::marks_of_move(mark_).entered;
    if (!runs_in_[to]) mark_.spot = Spot::None;
    places_[to].own->target = 1;
    places_[to].own->rested.reset();
    places_[to].mark = mark_;
    quiet(here);
  }
  void quiet(std::size_t place) {
    launch::WatchedFleet& own = *places_[place].own;
    own.target = 0;
    own.rested = now_;
    own.note.reset();
    places_[place].spot.reset();
    runs_in_[place].reset();
  }

  const Market& market_;
  const Task task_;
  const Watching watching_;
  Duration settling_;
  std::vector<PlaceSeen> places_;
  std::vector<std::optional<std::size_t>> runs_in_;  // of each place: its spot instance's pool
  const std::vector<Pool>* now_pools_ = nullptr;     // at this look
  std::shared_ptr<Tables> tables_;
  launch::WatchMark mark_;
  wire::WallTime now_ = kBegin;
  std::size_t looks_ = 0;
  bool rests_ = false;  // it runs on demand, and its own fleet asks for no spot capacity
};

}  // namespace

double dollars_of_move(const Watching& watching) {
  double dearest = 0;
  if (watching.regions.size() > 1)
    for (const std::string& it : watching.regions)
      dearest = std::max(dearest, launch::dollars_of_transfer(it));
  return watching.gigabytes * dearest;
}

std::unique_ptr<Policy> watched(const Market& market, const Task& task, const Watching& watching) {
  assert(!watching.regions.empty());
  return std::make_unique<Watched>(market, task, watching);
}

}  // namespace spotter::capacity
