#include "tests/gang/simulator/world.hpp"
#include "tests/gang/simulator/story.hpp"

#include <algorithm>
#include <cstdio>

namespace spotter::gang {
namespace {

using Does = SimMachine::Does;
using Phase = Record::Phase;

// A client gives up; a write that it sent may be done long after.
constexpr Duration patience_with_s3{5'000};
constexpr Duration latest_write{40'000};
// From the end of its workers until torchrun asks, and from its start.
constexpr Duration torchrun_takes{1'500};
constexpr Duration time_to_end{20 * 60'000};

}  // namespace

SimWorld::SimWorld(std::uint64_t seed, bool talks) : chance_(seed), talks_(talks) {
  settings_.job = "home";
  settings_.size = 2 + chance_() % 5;
  settings_.min = 1 + chance_() % settings_.size;
  steps_ = 40 + static_cast<std::int64_t>(chance_() % 200);
  every_ = 3 + static_cast<std::int64_t>(chance_() % 20);
  draw_trouble();
  settings_.replaced = trouble_.on_fleet;
  say("a gang of " + std::to_string(settings_.size) + " machines, " +
      std::to_string(settings_.min) + " at least, has " + std::to_string(steps_) +
      " steps to do, and saves after each " + std::to_string(every_));
  for (std::size_t i = 0; i < settings_.size; ++i) say(arrive().id + " comes");
}

SimWorld::SimWorld(std::uint64_t seed, Settings settings, std::int64_t steps, std::int64_t every)
    : chance_(seed), talks_(false), settings_(std::move(settings)), steps_(steps), every_(every) {
  trouble_.lasts = std::chrono::hours(24 * 400);
}

SimMachine& SimWorld::arrive() {
  Settings its = settings_;
  its.id = its.name = its.address = "m" + std::to_string(++arrived_);
  auto machine = std::make_unique<SimMachine>();
  machine->id = its.id;
  machine->self = std::make_unique<Participant>(its);
  machine->next = now_ + up_to(Duration(10'000));
  machines_.push_back(std::move(machine));
  return *machines_.back();
}

SimMachine* SimWorld::find(const std::string& id) const {
  const auto found = std::ranges::find(machines_, id, [](const auto& each) { return each->id; });
  return found == machines_.end() ? nullptr : found->get();
}

bool SimWorld::linked(const std::string& one, const std::string& other) const {
  const auto found = parted_.find(std::minmax(one, other));
  return found == parted_.end() || now_ >= found->second;
}

void SimWorld::say(const std::string& words) {
  if (talks_)
    std::printf("%8.2f %s\n", std::chrono::duration<double>(now_ - begun_).count(), words.c_str());
}

std::string SimWorld::live() {
  troubled_until_ = now_ + trouble_.lasts;
  const auto is = [&](Phase phase) { return bucket_.record() && bucket_.record()->phase == phase; };
  while (broken_.empty() && now_ < troubled_until_ && !is(Phase::Done)) turn();
  end_trouble();
  for (const Time end = now_ + time_to_end;
       broken_.empty() && now_ < end && !is(Phase::Done) && !is(Phase::Failed);)
    turn();
  if (broken_.empty() && !is(Phase::Done) && !is(Phase::Failed))
    broken_.push_back("it does not end: " + (bucket_.record() ? to_json(*bucket_.record()) : ""));
  return broken_.empty() ? "" : broken_.front();
}

std::string SimWorld::summary() const {
  const auto& record = bucket_.record();
  return !record ? "nothing" : record->phase == Phase::Done ? "done" : "failed";
}

void SimWorld::turn() {
  now_ += tick_;
  if (now_ < troubled_until_) happen();
  if (now_ >= troubled_until_) start_again();
  while (now_ >= troubled_until_ && machines_.size() < settings_.size) say(arrive().id + " comes");
  std::erase_if(late_, [&](const Late& write) {
    if (now_ < write.at) return false;
    bucket_.carry_out(write.ask, write.by);
    return true;
  });
  // In whichever order; of a machine its agent before its workers, or after them.
  std::ranges::shuffle(machines_, chance_);
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    SimMachine& each = *machines_[i];
    if (!runs(each)) continue;
    const bool first = likely(0.5);
    if (first) talk(each);
    work(each);
    if (!first) talk(each);
  }
  std::set<std::uint64_t> rounds;
  for (const auto& each : machines_)
    if (each->works()) rounds.insert(each->place->round);
  for (const std::uint64_t each : rounds) train(each);
  judge_rounds();
  judge_workers();
  bury();
}

void SimWorld::bury() {
  std::erase_if(machines_, [&](const auto& each) {
    if (now_ < each->dies) return false;
    say(each->id + " is gone");
    dead_[each->process] = now_;
    return true;
  });
}

// One request at a time, as the clerk does it.
void SimWorld::talk(SimMachine& machine) {
  Participant& self = *machine.self;
  if (machine.answered_at) {
    if (now_ < *machine.answered_at) return;
    machine.answered_at.reset();
    auto answer = std::exchange(machine.answer, std::nullopt);
    if (!answer) return self.unanswered(now_);
    if (answer->kind == Answer::Kind::Seen) return self.looked(now_, std::move(answer->seen));
    if (answer->kind == Answer::Kind::Refused) return self.refused(now_);
    return self.wrote(now_, answer->etag);
  }
  const auto ask = self.next(now_);
  if (!ask) return;
  const bool silent = now_ < down_until_ || now_ < machine.cut_until;
  const bool troubled = now_ < troubled_until_;
  const bool late = troubled && likely(trouble_.late);
  machine.answered_at = now_ + (silent || late ? patience_with_s3 : Duration(0));
  if (late) late_.push_back({now_ + up_to(latest_write), *ask, machine.id});
  if (silent || late || (troubled && likely(trouble_.lost_requests))) return;
  machine.answer = bucket_.carry_out(*ask, machine.id);
  if (troubled && likely(trouble_.lost_answers)) machine.answer.reset();
  if (troubled && likely(trouble_.slow)) *machine.answered_at += up_to(patience_with_s3);
}

// torchrun and its workers, as far as this machine alone goes.
void SimWorld::work(SimMachine& machine) {
  Participant& self = *machine.self;
  if (machine.noticed && now_ + Duration(5'000) >= machine.dies && machine.does == Does::Starts)
    self.go();
  if (machine.does == Does::Done) {
    // Its part is done; the gang may need it again.
    if (self.is_done() || (!self.must_end(now_) && !self.is_leaving())) return;
    if (self.leads() && !self.is_over(self.round())) return;
    self.idle();
    machine.does = Does::Starts;
    machine.next = now_;
  }
  if (machine.does == Does::Starts || machine.does == Does::Asks) return ask_for_round(machine);
  if (const auto why = self.must_end(now_)) {
    say(machine.id + ": " + *why);
    return end_workers(machine, {.end = End::Ended}, torchrun_takes);
  }
  if (machine.hangs && now_ >= *machine.hangs) {
    machine.hangs.reset();
    return end_workers(machine, {.end = End::Hung}, torchrun_takes);
  }
  if (machine.torn && now_ >= *machine.torn)
    return end_workers(machine, {.end = End::Torn}, torchrun_takes);
  if (machine.does == Does::Meets) return meet(machine);
  if (machine.does == Does::Opens) return open(machine);
  if (machine.does == Does::Saves) return save(machine);
  if (machine.does == Does::Commits && now_ >= machine.next) return commit(machine);
}

void SimWorld::ask_for_round(SimMachine& machine) {
  Participant& self = *machine.self;
  if (now_ < machine.next) return;
  if (self.refuses()) {
    machine.place.reset();
    if (!machine.goes) machine.goes = now_ + up_to(torchrun_takes);
    if (now_ < *machine.goes) return;  // torchrun has its answer, and ends
    if (self.is_leaving() || self.is_given_back()) self.go();
    if (self.is_gone()) machine.dies = std::min(machine.dies, now_);
    return;
  }
  machine.goes.reset();
  if (machine.does == Does::Starts) {
    machine.does = Does::Asks;
    machine.port = static_cast<std::uint16_t>(1024 + chance_() % 60'000);
    self.ready(machine.port, home_.newest(), std::exchange(machine.last, {}));
  }
  machine.place = self.place();
  if (!machine.place) return;
  judge_place(machine);
  machine.took = machine.place->round;
  say(machine.id + ": machine " + std::to_string(machine.place->rank) + " of round " +
      std::to_string(machine.place->round));
  machine.does = Does::Meets;
  machine.process = ++processes_;
  machine.next = now_ + up_to(Duration(1'000));
  machine.torn.reset();
  machine.hangs.reset();
  machine.only_waits = false;
  machine.stops = false;
}

void SimWorld::end_workers(SimMachine& machine, Last last, Duration until_it_asks) {
  if (talks_ && last.end != End::Other) say(machine.id + ": " + to_words(last.end));
  note_end(machine, last);
  machine.does = Does::Starts;
  machine.last = std::move(last);
  machine.torn.reset();
  machine.next = now_ + up_to(until_it_asks);
}

}  // namespace spotter::gang
