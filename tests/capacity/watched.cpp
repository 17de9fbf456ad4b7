#include "tests/capacity/watched.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <random>
#include <utility>

#include "agent/launch/deadline.hpp"
#include "agent/launch/places.hpp"

namespace spotter::capacity {
namespace {

using launch::PlaceSeen;
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
        tables_(watching.tables ? watching.tables : std::make_shared<Tables>()),
        chance_(watching.seed),
        wrong_(1 - watching.noise, 1 + watching.noise) {
    for (const std::string& region : watching.regions)
      places_.push_back({region, launch::WatchedFleet{FleetId("fleet"), 0}, {}});
    ids_.resize(places_.size());
    places_.front().own->target = 1;
    mark_.since = kBegin;
  }

  Pick choose(const std::vector<Pool>& pools, const Position& standing) override {
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
      rests_ = rests_ || runs_in_[here];
      if (!rests_) look_elsewhere();
      return {.use = Use::OnDemand, .place = here};
    }
    // A fleet at rest is woken, and the on-demand instance stays until the next look.
    if (std::exchange(rests_, false)) return {.use = Use::OnDemand, .place = here};
    look_elsewhere();
    const auto& runs = runs_in_[launch::place_of_job(places_)];
    return runs ? Pick{.use = Use::Spot, .pool = *runs} : Pick{};
  }

 private:
  // The job's agent ends it then.
  bool is_used_up(const Position& standing) const {
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
    if (runs && pools[*runs].available) return;
    runs = best;
    ids_[place] = runs ? InstanceId("i-" + std::to_string(looks_)) : InstanceId();
  }

  // Like decide_fallback(), but its instances are there as soon as they are asked for.
  void mark_look(std::size_t here, const Position& standing) {
    const auto& runs = runs_in_[here];
    const Spot spot = rests_ ? Spot::Rests : runs ? Spot::Runs : Spot::None;
    const InstanceId instance = ids_[here];
    launch::Sight sight{.now = now_,
                        .runs = standing.use,
                        .spot = runs.has_value(),
                        .before = mark_.outlook,
                        .looked = rests_ || mark_.spot == Spot::Rests ? now_ : mark_.looked,
                        .had_spot = rests_ || mark_.spot == Spot::Rests ? runs.has_value()
                                                                        : mark_.spot == Spot::Runs};
    if (sight.runs == Use::Nothing && sight.spot) sight.runs = Use::Spot;
    if (spot != mark_.spot || instance != mark_.instance) mark_.since = now_;
    mark_.looked = now_;
    mark_.spot = spot;
    mark_.instance = instance;
    const double time = static_cast<double>(task_.ticks) * market_.tick;
    std::optional<double> left;
    if (watching_.dollars) left = std::max(0.0, *watching_.dollars - standing.paid);
    mark_.outlook = launch::look_ahead(
        {.due = kBegin + seconds_of(time),
         .work = {standing.work, standing.work / task_.work},
         .start = task_.start * (1 + watching_.noise),
         .interval = market_.tick,
         .on_demand = market_.on_demand,
         .spot = wrong_(chance_) * (runs ? (*now_pools_)[*runs].dollars : places_[here].dollars),
         .zone = {},
         .dollars_left = left,
         .gives_way = watching_.gives_way},
        sight, [this](const Terms& terms, double work, double slack) -> const Values& {
          return tables_->of(terms, work, slack);
        });
    places_[here].mark = mark_;
  }

  void look_elsewhere() {
    if (const auto move = launch::decide_move(places_, mark_, settling_)) go(move->to);
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
    runs_in_[place].reset();
    ids_[place] = {};
  }

  const Market& market_;
  const Task task_;
  const Watching watching_;
  Duration settling_;
  std::vector<PlaceSeen> places_;
  std::vector<std::optional<std::size_t>> runs_in_;  // of each place: its spot instance's pool
  std::vector<InstanceId> ids_;                      // of each place: that instance
  const std::vector<Pool>* now_pools_ = nullptr;     // at this look
  std::shared_ptr<Tables> tables_;
  std::mt19937 chance_;
  std::uniform_real_distribution<> wrong_;
  launch::WatchMark mark_;
  wire::WallTime now_ = kBegin;
  std::size_t looks_ = 0;
  bool rests_ = false;  // it runs on demand, and its own fleet asks for no spot capacity
};

}  // namespace

const Values& Tables::of(const Terms& terms, double work, double slack) {
  const Key key(terms.spot, terms.start, terms.losses_an_hour, terms.returns_an_hour, work, slack);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  if (bytes_ >= most_bytes) known_.clear(), bytes_ = 0;
  const Values& made = known_.try_emplace(key, terms, work, slack).first->second;
  bytes_ += made.bytes();
  return made;
}

std::unique_ptr<Policy> watched(const Market& market, const Task& task, const Watching& watching) {
  assert(!watching.regions.empty());
  return std::make_unique<Watched>(market, task, watching);
}

}  // namespace spotter::capacity
