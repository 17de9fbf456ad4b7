// The ranks of a round together: they meet, open the home, do steps, save and commit.
#include <algorithm>

#include "tests/gang/simulator/world.hpp"

namespace spotter::gang {
namespace {

using Does = SimMachine::Does;

// rendezvous.py
constexpr Duration to_connect{10'000}, to_meet{60'000};
// _run.py's _open_alone()
constexpr Duration to_open{120'000};
// A process that is gone closes its connections. The end of one behind a network or a pause shows
// by a time-out of the collective.
constexpr Duration to_see_an_end{3'000}, to_time_out{60'000};
constexpr Duration longest_step{1'000}, longest_save{4'000}, longest_commit{1'500};
constexpr Duration to_see_a_hang{60'000};
constexpr Duration before_the_end{9'000};  // all stop to save

}  // namespace

Time SimWorld::step_ends(std::uint64_t /*round*/, std::size_t /*ranks*/) {
  return now_ + up_to(longest_step);
}

Duration SimWorld::save_takes() { return up_to(longest_save); }

Duration SimWorld::opening_takes() { return up_to(Duration(1'000)); }

// Each connects to all others, in the order of their ranks; then all wait at the leader's store.
void SimWorld::meet(SimMachine& machine) {
  if (now_ < machine.next) return;
  const Place& place = *machine.place;
  auto& met = met_[place.round];
  for (const Place::Machine& each : place.machines) {
    if (each.id == machine.id) continue;
    const SimMachine* const other = find(each.id);
    const bool there = other != nullptr && linked(machine.id, each.id);
    if (there && other->port == each.port && other->does != Does::Starts) continue;
    // A port that nobody listens on refuses at once, and its machine has been reached.
    const bool named = !there && !machine.self->is_over(place.round);
    return end_workers(machine, {.apart = true, .missed = named ? each.id : ""},
                       there ? Duration(0) : to_connect);
  }
  met.insert(machine.id);
  if (met.size() == place.machines.size()) {
    machine.does = Does::Opens;
    machine.next = now_ + opening_takes();
    return;
  }
  if (machine.self->is_over(place.round))
    return end_workers(machine, {.end = End::Ended}, Duration(0));
  if (now_ - machine.next > to_meet) end_workers(machine, {.apart = true}, Duration(0));
}

// A server keeps the lock for a while if its machine is gone, or paused with its kernel.
bool SimWorld::serves_holder() const {
  for (const auto& each : machines_) {
    if (!each->works() || each->process != home_.holder()) continue;
    return runs(*each) || now_ - each->paused_at < lock_lease_;
  }
  const auto dead = dead_.find(home_.holder().value_or(0));
  return dead != dead_.end() && now_ - dead->second < lock_lease_;
}

void SimWorld::open(SimMachine& machine) {
  if (machine.place->rank != 0 || now_ < machine.next) return;
  if (!home_.take(machine.process, serves_holder())) {
    if (now_ - machine.next < to_open) return;
    return end_workers(machine, {.end = End::Failed}, Duration(1'000));
  }
  machine.step = std::max<std::int64_t>(home_.newest(), 0);
  machine.history = home_.history();
  machine.does = Does::Trains;
}

// Those of its ranks that run. `whole`: all do, and reach one another.
std::vector<SimMachine*> SimWorld::together(std::uint64_t round, bool& whole) {
  std::vector<SimMachine*> ranks;
  const auto& ids = rounds_.at(round);
  bool all_live = true;
  whole = true;
  for (const std::string& id : ids) {
    SimMachine* const each = find(id);
    const bool comes = each != nullptr && each->place && each->place->round == round;
    const bool lives =
        comes && (each->works() || each->does == Does::Meets || each->does == Does::Done);
    all_live = all_live && lives;
    whole = whole && lives && runs(*each) && each->does != Does::Meets;
    if (lives && each->works() && runs(*each)) ranks.push_back(each);
  }
  for (const SimMachine* one : ranks)
    for (const SimMachine* other : ranks)
      whole = whole && (one == other || linked(one->id, other->id));
  for (SimMachine* const each : ranks) {
    if (whole) each->torn.reset();
    if (whole || (each->hangs && !each->only_waits)) continue;  // one that hangs sees nothing
    const Time seen = now_ + up_to(all_live ? to_time_out : to_see_an_end);
    each->torn = std::min(each->torn.value_or(seen), seen);
  }
  return ranks;
}

void SimWorld::train(std::uint64_t round) {
  bool whole = false;
  const auto ranks = together(round, whole);
  if (!whole || ranks.size() != rounds_.at(round).size()) return;
  SimMachine& leader = *ranks.front();
  if (leader.does == Does::Opens || leader.does == Does::Commits) return;
  if (std::ranges::any_of(ranks, [](const SimMachine* each) { return each->hangs.has_value(); }))
    return;
  for (SimMachine* const each : ranks) {
    if (each->does != Does::Opens) continue;
    each->does = Does::Trains;
    each->step = leader.step;
    each->history = leader.history;
  }
  // A rank that was paused, or cut off, at the commit: its connection has kept the word.
  for (SimMachine* const each : ranks)
    if (leader.does == Does::Trains && each->does == Does::Saved && each->step == leader.step)
      go_on(*each);
  const auto all = [&](Does what) {
    return std::ranges::all_of(ranks, [&](const SimMachine* each) { return each->does == what; });
  };
  if (all(Does::Saved)) {
    leader.does = Does::Commits;
    leader.next = now_ + up_to(longest_commit);
  } else if (all(Does::Trains)) {
    step(round, ranks);
  }
}

void SimWorld::step(std::uint64_t round, const std::vector<SimMachine*>& ranks) {
  SimMachine& leader = *ranks.front();
  if (leader.step >= steps_) return finish(ranks);
  if (now_ < next_step_[round]) return;
  next_step_[round] = step_ends(round, ranks.size());
  if (trouble_of_trainer(ranks)) return;
  const auto stop = leader.self->must_stop();
  const bool stops = (stop && (!stop->by || now_ + before_the_end >= *stop->by)) ||
                     (leader.noticed && now_ + before_the_end + Duration(5'000) >= leader.dies);
  const bool saves = stops || (leader.step + 1) % every_ == 0 || leader.step + 1 == steps_;
  for (SimMachine* const each : ranks) {
    ++each->step;
    if (!saves) continue;
    each->stops = stops;
    each->does = Does::Saves;
    each->next = now_ + save_takes();
  }
}

bool SimWorld::trouble_of_trainer(const std::vector<SimMachine*>& ranks) {
  if (now_ >= troubled_until_) return false;
  const bool worn = trouble_.wears_out && truth_.committed.contains(ranks.front()->place->round);
  SimMachine& one = worn ? *ranks.front() : *ranks[chance_() % ranks.size()];
  if (in_this_turn(trouble_.crashes)) {
    count("crashes");
    say(one.id + ": its trainer crashes");
    end_workers(one, {.end = End::Failed}, Duration(1'000));
    return true;
  }
  if (!worn && !in_this_turn(trouble_.hangs)) return false;
  count("hangs");
  say(one.id + ": its trainer hangs");
  one.hangs = now_ + to_see_a_hang;
  for (SimMachine* const each : ranks) {
    if (each == &one || !trouble_.on_gpus) continue;
    each->hangs = *one.hangs + up_to(Duration(1'000));
    each->only_waits = true;
  }
  return true;
}

void SimWorld::save(SimMachine& machine) {
  if (now_ < machine.next) return;
  home_.add_shard(machine.place->round, machine.step, machine.id);
  machine.does = Does::Saved;
}

// By rank 0, which looks whether it still has the lock; meanwhile it may have been paused.
void SimWorld::commit(SimMachine& leader) {
  const std::uint64_t round = leader.place->round;
  if (!home_.holds(leader.process))
    return end_workers(leader, {.end = End::Failed}, Duration(1'000));
  home_.commit({round, leader.step}, leader.history, rounds_.at(round));
  note_commit(round);
  say(leader.id + ": commits step " + std::to_string(leader.step) + " of round " +
      std::to_string(round));
  for (const std::string& id : rounds_.at(round)) {
    SimMachine* const each = find(id);
    const bool sees =
        each == &leader || (each != nullptr && each->does == Does::Saved &&
                            each->place->round == round && runs(*each) && linked(leader.id, id));
    if (sees) go_on(*each);
  }
}

// After a commit.
void SimWorld::go_on(SimMachine& machine) {
  machine.does = Does::Trains;
  machine.history = home_.history();
  if (machine.stops && machine.step < steps_) end_workers(machine, {}, Duration(1'000));
}

void SimWorld::finish(const std::vector<SimMachine*>& ranks) {
  for (SimMachine* const each : ranks) each->does = Does::Done;
  ranks.front()->self->finished();
}

}  // namespace spotter::gang
