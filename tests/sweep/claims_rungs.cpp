// The world's early stopping: what trainers report, and the records at the rungs in its bucket.
#include <algorithm>

#include "tests/sweep/claims_world.hpp"
#include "tests/sweep/settled.hpp"

namespace spotter::sweep {

// A machine's view of the records: requests are lost, answered too late for it, or arrive later.
class World::Rungs : public RungStore {
 public:
  explicit Rungs(World& world) : world_(world) {}

  Answer<std::optional<std::string>> read(std::string name) override {
    if (!answers()) co_return failure("no answer");
    const auto found = world_.rungs_.find(name);
    if (found == world_.rungs_.end()) co_return std::nullopt;
    co_return found->second;
  }
  Answer<std::vector<std::string>> list(std::string folder) override {
    if (!answers()) co_return failure("no answer");
    // A late write may arrive while its writer asks again.
    if (world_.chance(0.5)) world_.rungs_.merge(world_.late_);
    std::vector<std::string> names;
    for (const auto& [name, text] : world_.rungs_)
      if (name.starts_with(folder)) names.push_back(name);
    co_return names;
  }
  Answer<bool> write_once(std::string name, std::string text) override {
    const auto& troubles = world_.settings_.troubles;
    if (!answers()) co_return failure("no answer");
    if (world_.chance(troubles.late_requests)) {
      world_.late_.emplace(name, text);
      world_.at(world_.now_ + world_.uniform(1000, longest_trouble),
                [&world = world_] { world.rungs_.merge(world.late_); });
      co_return failure("no answer");
    }
    const bool first = world_.rungs_.emplace(name, text).second;
    if (world_.chance(troubles.lost_answers)) co_return failure("no answer");
    co_return first;
  }

 private:
  bool answers() {
    ++world_.figures_.requests;
    const auto& troubles = world_.settings_.troubles;
    return !world_.outage() && !world_.chance(troubles.lost_requests);
  }

  World& world_;
};

Moment World::report_every() const {
  return settings_.work / static_cast<Moment>(settings_.curves.front().size());
}

// Like service/early_stop.hpp: what the bucket does not answer is asked again at the next report.
bool World::ends_early(Machine& machine) {
  const Moment reached = machine.progress + now_ - machine.since;
  const auto reports = static_cast<std::size_t>(reached / report_every());
  const auto& curve = settings_.curves[machine.index];
  if (reports <= machine.reports || reports > curve.size()) return false;
  machine.reports = reports;
  const auto step = static_cast<std::uint64_t>(report_every()) * reports;
  const auto rung = rung_at(*settings_.stop, step, static_cast<std::uint64_t>(settings_.work));
  // An agent that stands still asks nothing.
  if (!rung || *rung < machine.judged || machine.process_until > now_) return false;
  Rungs store(*this);
  const auto record = settled(store, *settings_.stop, settings_.objective,
                              {.index = machine.index,
                               .rung = *rung,
                               .judged = machine.judged,
                               .step = step,
                               .value = curve[reports - 1]});
  if (!record) {
    ++figures_.unsettled;
    return false;
  }
  machine.judged = *rung + 1;
  bool recorded = false;
  for (std::uint32_t each = 0; each <= *rung; ++each) {
    const auto found = rungs_.find(rung_name(each, machine.index));
    recorded = recorded || (found != rungs_.end() && found->second == to_json(*record));
  }
  if (!recorded)
    break_promise("experiment " + std::to_string(machine.index) +
                  " has a verdict that the bucket "
                  "does not have");
  return !record->goes_on;
}

std::optional<std::size_t> World::best() const {
  std::optional<std::size_t> best;
  for (std::size_t index = 0; index < experiments_.size(); ++index) {
    const auto last = [&](std::size_t which) { return settings_.curves[which].back(); };
    if (experiments_[index].finished && (!best || last(index) > last(*best))) best = index;
  }
  return best;
}

}  // namespace spotter::sweep
