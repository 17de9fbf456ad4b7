// One object in a bucket, machines and a network, on virtual time: what Participants live in. All
// that happens is drawn from one seed. Each promise that is broken is a line in `broken`.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "agent/gang/participant.hpp"

namespace spotter::gang {

struct Bucket {
  std::optional<Record> record;
  std::uint64_t version = 0;
  bool down = false;
  std::string etag() const { return record ? std::to_string(version) : ""; }
};

// A machine with its launcher and workers. They work as long as the round has all its machines.
struct Machine {
  std::unique_ptr<Participant> self;
  std::string id;
  bool waits = true;   // its launcher, for a round
  bool asked = false;  // and has said so
  std::optional<Place> place;
  std::uint64_t last = 0;  // round that it was in
  bool leaving = false, cut_off = false;
  bool unreachable = false, apart = false;  // for the others; it could not reach one of them
  std::string missed{};                     // the first of these
  End end = End::Other;                     // what it says of its workers' next one
  Time until{};                             // it dies then
  Time ends_at{};                           // its workers end then, by themselves
  bool ends = false;
  bool hangs = false;  // its workers end only when they are ended
  Duration slow{};     // its launcher asks so long after their end
  Time asks_at{};
};

struct Chances {
  double lost_requests = 0, lost_answers = 0;
  double kills = 0, notices = 0, arrivals = 0, outages = 0, cuts = 0;  // a second
};

class GangWorld {
 public:
  GangWorld(std::size_t size, std::size_t min, std::uint64_t seed) : chance(seed) {
    settings.job = "home";
    settings.size = size;
    settings.min = min;
  }

  Machine& arrive() {
    Settings its = settings;
    its.id = its.name = "m" + std::to_string(++arrived);
    its.address = its.id;
    its.word = "of " + its.id;
    auto machine = std::make_unique<Machine>();
    machine->id = its.id;
    machine->self = std::make_unique<Participant>(its);
    machine->until = Time::max();
    machines.push_back(std::move(machine));
    return *machines.back();
  }
  void kill(Machine& machine) { machine.until = now; }
  // Spotter's agent does the same: two minutes, and the workers save before they are over.
  void notice(Machine& machine, Duration lead = Duration(20'000)) {
    if (std::exchange(machine.leaving, true)) return;
    machine.self->leave(now + lead - Duration(5'000));
    machine.until = now + lead;
  }

  bool likely(double share) { return std::uniform_real_distribution<>(0, 1)(chance) < share; }
  std::size_t one_of(std::size_t count) { return chance() % count; }

  // A fifth of a second of everybody's.
  void turn(const Chances& chances = {}) {
    now += step;
    happen(chances);
    for (auto& each : machines) {
      if (now >= each->until) continue;
      talk(*each, chances);
      work(*each);
    }
    std::erase_if(machines, [&](const auto& each) { return now >= each->until; });
  }
  void run(Duration for_so_long, const Chances& chances = {}) {
    for (const Time end = now + for_so_long; now < end && broken.empty();) turn(chances);
  }
  // All machines, and no other, train in one round.
  bool is_one() const {
    if (!bucket.record || bucket.record->phase != Record::Phase::Training) return false;
    std::size_t in_it = 0;
    for (const auto& each : machines)
      in_it += each->place && !each->waits && each->place->round == bucket.record->round;
    return in_it == std::min(machines.size(), settings.size) &&
           bucket.record->ranks.size() == in_it;
  }

  static constexpr Duration step{200};
  Settings settings;
  std::mt19937_64 chance;
  Time now{Duration(1'000'000)};
  Bucket bucket;
  std::vector<std::unique_ptr<Machine>> machines;
  std::size_t arrived = 0;
  std::int64_t progress = -1;
  std::vector<std::string> broken;
  std::map<std::uint64_t, std::vector<std::string>> rounds;  // who was in each

 private:
  void happen(const Chances& chances) {
    const double part = std::chrono::duration<double>(step).count();
    if (likely(chances.outages * part)) down_until = now + Duration(one_of(70'000));
    bucket.down = now < down_until;
    const std::size_t before = machines.size();
    for (std::size_t i = 0; i < before; ++i) {
      Machine& each = *machines[i];
      if (likely(chances.kills * part)) kill(each);
      if (likely(chances.notices * part)) notice(each);
      if (likely(chances.cuts * part)) cut_until[each.id] = now + Duration(one_of(120'000));
      each.cut_off = cut_until.contains(each.id) && now < cut_until[each.id];
    }
    if (machines.size() < settings.size + 1 && likely(chances.arrivals * part)) arrive();
    ++progress;
  }

  void talk(Machine& machine, const Chances& chances) {
    Participant& self = *machine.self;
    const auto ask = self.next(now);
    if (!ask) return;
    if (bucket.down || machine.cut_off || likely(chances.lost_requests))
      return self.unanswered(now);
    const bool lost = likely(chances.lost_answers);
    const auto* write = std::get_if<Write>(&*ask);
    if (write == nullptr) {
      if (lost) return self.unanswered(now);
      std::optional<Seen> seen;
      if (bucket.record) seen = Seen{*bucket.record, bucket.etag()};
      return self.looked(now, seen);
    }
    const bool holds = write->etag == bucket.etag();
    if (holds) {
      take(write->record);
      bucket.record = write->record;
      ++bucket.version;
    }
    if (lost) return self.unanswered(now);
    holds ? self.wrote(now, bucket.etag()) : self.refused(now);
  }

  // Checks what each version of the record must keep of the one before.
  void take(const Record& after) {
    const std::uint64_t before = bucket.record ? bucket.record->round : 0;
    if (after.round < before || after.round > before + 1)
      broken.push_back("from round " + std::to_string(before) + " to " +
                       std::to_string(after.round));
    if (bucket.record && bucket.record->phase == Record::Phase::Done)
      broken.push_back("after the end");
    if (after.round == before) return;
    if (after.ranks.size() < settings.min || after.ranks.size() > settings.size)
      broken.push_back("a round of " + std::to_string(after.ranks.size()));
    for (const std::string& id : after.ranks) {
      const Member* member = bucket.record ? bucket.record->find(id) : nullptr;
      if (after.find(id) == nullptr) broken.push_back(id + " is no member");
      if (member != nullptr && member->leaves_in)
        broken.push_back(id + " leaves, and is in a round");
      if (member != nullptr && member->left_out)
        broken.push_back(id + " is left out, and is in a round");
      if (member != nullptr && member->given_back)
        broken.push_back(id + " is given back, and is in a round");
    }
    if (!rounds.emplace(after.round, after.ranks).second) broken.push_back("a round twice");
  }

  // The launcher and its workers.
  void work(Machine& machine) {
    Participant& self = *machine.self;
    if (machine.waits) {
      if (self.refuses()) return leave(machine);
      if (now < machine.asks_at) return;
      if (!std::exchange(machine.asked, true))
        self.ready(4000, progress,
                   {.end = std::exchange(machine.end, End::Other),
                    .apart = std::exchange(machine.apart, false),
                    .missed = std::exchange(machine.missed, "")});
      machine.place = self.place();
      if (!machine.place) return;
      check(machine);
      machine.last = machine.place->round;
      machine.waits = machine.asked = false;
      machine.ends = false;
      machine.missed = unreached_by(machine);
      machine.apart = machine.waits = !machine.missed.empty();
      return;
    }
    const bool stops = machine.leaving || self.must_stop();
    if (!machine.ends && !machine.hangs && (stops || lacks_one(*machine.place))) {
      machine.ends = true;
      machine.ends_at = now + Duration(one_of(3'000));
    }
    if (!self.must_end(now) && !(machine.ends && now >= machine.ends_at)) return;
    machine.waits = true;
    machine.asks_at = now + machine.slow;
  }
  void leave(Machine& machine) {
    if (!machine.leaving && !machine.self->is_given_back()) return;
    machine.self->go();
    if (machine.self->is_gone()) machine.until = now;
  }
  // A process group ends for all when one of it ends. Machines that have not come yet are waited
  // for.
  bool lacks_one(const Place& place) {
    return std::ranges::any_of(rounds.at(place.round), [&](const std::string& id) {
      const auto found = std::ranges::find(machines, id, [](const auto& each) { return each->id; });
      if (found == machines.end()) return true;
      const std::uint64_t in = (*found)->last;
      return in > place.round || (in == place.round && (*found)->waits);
    });
  }
  // The first of its round, by its id; empty: it reaches all.
  std::string unreached_by(const Machine& machine) const {
    for (const Place::Machine& each : machine.place->machines) {
      const auto other =
          std::ranges::find(machines, each.id, [](const auto& it) { return it->id; });
      if (other != machines.end() && (*other)->unreachable && each.id != machine.id) return each.id;
    }
    return "";
  }
  void check(const Machine& machine) {
    const Place& place = *machine.place;
    const auto found = rounds.find(place.round);
    if (found == rounds.end()) return broken.push_back("an unknown round");
    const auto& ranks = found->second;
    if (place.machines.size() != ranks.size() || place.rank >= ranks.size() ||
        ranks[place.rank] != machine.id || place.machines.front().word != "of " + ranks.front() ||
        place.machines.front().address != ranks.front())
      broken.push_back(machine.id + " has another view of round " + std::to_string(place.round));
  }

  Time down_until{};
  std::map<std::string, Time> cut_until;
};

}  // namespace spotter::gang
