#include <algorithm>

#include "tests/gang/simulator/story.hpp"
#include "tests/gang/simulator/world.hpp"

namespace spotter::gang {
namespace {

using Phase = Record::Phase;

// Those of an earlier round may outlive the next one's beginning for so long: the looks at the
// record, the grace and a lease that is not renewed.
constexpr Duration patience_with_workers{90'000};
// The simulator's turns add so much to a limit of the core.
constexpr Duration turns{1'000};

}  // namespace

// --- what really happened

void SimWorld::note_end(const SimMachine& machine, const Last& last) {
  if (!machine.place) return;
  const std::uint64_t round = machine.place->round;
  const auto note = [&](std::set<std::uint64_t>& rounds, const char* kind) {
    if (rounds.insert(round).second) count(kind);
  };
  if (last.end == End::Failed || last.end == End::Hung) note(truth_.failed, "rounds that failed");
  if (last.end == End::Torn) note(truth_.torn, "rounds that were torn");
  if (last.end == End::Ended) count("workers ended");
  if (last.apart) note(truth_.apart, "rounds apart");
  if (last.apart || last.end == End::Torn) truth_.quarrels.insert(round);
  if (last.end == End::Hung && machine.only_waits) count("machines that only seemed to hang");
  if (last.end == End::Hung && !machine.only_waits) truth_.reasons[machine.id].insert(round);
  if (!last.missed.empty()) truth_.reasons[last.missed].insert(round);
  if (last.apart || last.end == End::Hung) truth_.bad[round].insert(machine.id);
}

void SimWorld::note_commit(std::uint64_t round) {
  count("commits");
  truth_.failed.clear();
  truth_.torn.clear();
  truth_.apart.clear();
  truth_.committed.insert(round);
  truth_.trained.insert(rounds_.at(round).begin(), rounds_.at(round).end());
}

// A member of the next round has said how its workers ended in the last.
void SimWorld::note_round(const Record& before, const Record& after) {
  const auto bad = truth_.bad.find(before.round);
  const bool apart =
      bad != truth_.bad.end() && std::ranges::any_of(bad->second, [&](auto& id) {
        const Member* const member = after.find(id);
        return member != nullptr && (member->given_back || (after.ranks.empty() && member->ready) ||
                                     std::ranges::find(after.ranks, id) != after.ranks.end());
      });
  if (apart)
    truth_.sound = 0;
  else if (truth_.committed.contains(before.round))
    ++truth_.sound;
  if (truth_.sound >= settings_.rounds_to_forget) truth_.sound = truth_.given_back = 0;
}

// Its workers never began: its torchrun was another one by then, or it did not see the round.
void SimWorld::note_absence(const Record& before) {
  for (const std::string& id : before.ranks) {
    const SimMachine* const machine = find(id);
    if (machine == nullptr || machine->took >= before.round) continue;
    truth_.apart.insert(before.round);
    truth_.quarrels.insert(before.round);
  }
}

// Those of whose end no machine that was lost is the reason.
std::size_t SimWorld::blamed(const std::set<std::uint64_t>& rounds) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      rounds, [&](std::uint64_t each) { return !truth_.lost.contains(each); }));
}

// --- what must hold

void SimWorld::changed(const std::optional<Record>& before, const Record& after,
                       const std::string& by) {
  if (SimMachine* const writer = find(by)) writer->accepted = now_;
  for (const Member& each : before ? before->members : std::vector<Member>()) {
    const SimMachine* const machine = find(each.id);
    if (after.find(each.id) == nullptr) truth_.trained.erase(each.id);  // it comes as a new one
    if (machine == nullptr || each.id == by || after.find(each.id) != nullptr) continue;
    if (now_ - machine->accepted < settings_.lease)
      broken_.push_back(each.id + " is taken for dead by " + by + ", and has written " +
                        std::to_string((now_ - machine->accepted).count()) + " ms ago");
  }
  if (talks_)
    for (const std::string& words : changes(before, after, by)) say("  record: " + words);
  const bool is_over =
      before && !before->ranks.empty() && (before->round != after.round || after.ranks.empty());
  if (is_over) note_absence(*before);
  judge_given_back(before, after);
  if (is_over) note_round(*before, after);
  if (!before || before->phase != after.phase) judge_end(after);
  const bool begins = after.phase == Phase::Training &&
                      (!before || before->phase != Phase::Training || before->round != after.round);
  if (!begins) return;
  if (!rounds_.emplace(after.round, after.ranks).second)
    broken_.push_back("one leader an epoch: round " + std::to_string(after.round) +
                      " begins twice");
  if (!rounds_.empty() && rounds_.rbegin()->first != after.round)
    broken_.push_back("a round follows a later one");
  if (after.ranks.size() < settings_.min || after.ranks.size() > settings_.size)
    broken_.push_back("a round of " + std::to_string(after.ranks.size()) + " machines");
  for (const std::string& id : after.ranks) {
    const Member* const member = after.find(id);
    if (member == nullptr || member->leaves_in || member->left_out || member->given_back)
      broken_.push_back(id + " is in a round, and leaves, or is no member");
  }
}

void SimWorld::judge_given_back(const std::optional<Record>& before, const Record& after) {
  const auto on_its_way = std::ranges::count_if(after.members, &Member::given_back);
  const auto stays = std::ranges::count_if(
      after.members, [](const Member& each) { return !each.given_back && !each.leaves_in; });
  if (on_its_way > 1) broken_.push_back("two machines are given back at once");
  for (const Member& each : after.members) {
    const Member* const was = before ? before->find(each.id) : nullptr;
    if (was == nullptr) continue;
    const bool goes = each.given_back && !was->given_back;
    if (goes && stays == 0) broken_.push_back("the last machine is given back");
    if (goes) count("machines given back");
    if (goes && ++truth_.given_back > settings_.size)
      broken_.push_back(
          "more machines are given back than train, and none of their rounds was "
          "sound");
    if (each.left_out && !was->left_out) count("machines left out");
    if ((goes && !was->left_out) || (each.left_out && !was->left_out)) judge_blame(each.id, goes);
  }
}

// It was the reason twice; or it has not trained, and rounds with it, or before, fell apart.
void SimWorld::judge_blame(const std::string& id, bool given_back) {
  const auto found = truth_.reasons.find(id);
  if (given_back && found != truth_.reasons.end() && found->second.size() > settings_.most_faults)
    return;
  const auto with_it = std::ranges::count_if(truth_.quarrels, [&](std::uint64_t round) {
    return std::ranges::find(rounds_.at(round), id) != rounds_.at(round).end();
  });
  if (!truth_.trained.contains(id) && with_it > 0 &&
      truth_.quarrels.size() >= settings_.most_apart_with_new)
    return;
  broken_.push_back(id + (given_back ? " is given back" : " is left out") +
                    ", and was not the reason");
}

void SimWorld::judge_place(const SimMachine& machine) {
  const Place& place = *machine.place;
  const auto found = rounds_.find(place.round);
  if (found == rounds_.end()) return broken_.push_back("an unknown round");
  const auto& ranks = found->second;
  const bool same = place.machines.size() == ranks.size() && place.rank < ranks.size() &&
                    ranks[place.rank] == machine.id && place.machines.front().id == ranks.front();
  if (!same)
    broken_.push_back("one leader an epoch: " + machine.id + " has another view of round " +
                      std::to_string(place.round));
  else if (place.machines[place.rank].port != machine.port)
    broken_.push_back(machine.id + " is in a round with the port of an earlier torchrun");
}

// Workers of an older round do not live for long beside those of a newer one.
void SimWorld::judge_rounds() {
  if (rounds_.empty()) return;
  const std::uint64_t newest = rounds_.rbegin()->first;
  for (const auto& each : machines_) {
    const bool old = each->works() && runs(*each) && each->place->round < newest;
    if (!old) {
      each->older_since.reset();
      continue;
    }
    if (!each->older_since) each->older_since = now_;
    if (now_ - *each->older_since > patience_with_workers)
      return broken_.push_back("the workers of " + each->id + " outlive round " +
                               std::to_string(each->place->round));
  }
}

// Workers follow what their machine itself knows within the core's own limits.
void SimWorld::judge_workers() {
  for (const auto& each : machines_) {
    const bool works = each->works() && runs(*each);
    if (works && now_ - each->accepted > settings_.lease + turns)
      broken_.push_back(each->id + " trains, and S3 has taken nothing from it for a lease");
    if (!works || !each->self->is_over(each->place->round)) {
      each->over_since.reset();
      continue;
    }
    if (!each->over_since) each->over_since = now_;
    if (now_ - *each->over_since > settings_.grace + turns)
      broken_.push_back(each->id + " knows that its round is over, and its workers stay");
  }
}

void SimWorld::judge_end(const Record& record) {
  if (record.phase == Phase::Failed) count("gangs given up");
  if (record.phase == Phase::Done && home_.newest() != steps_)
    broken_.push_back("done without its result");
  const bool right = blamed(truth_.failed) > settings_.most_failures ||
                     blamed(truth_.torn) > settings_.most_torn ||
                     truth_.apart.size() > settings_.most_apart;
  if (record.phase == Phase::Failed && !right)
    broken_.push_back("given up, and since the newest commit " +
                      std::to_string(blamed(truth_.failed)) + " rounds have failed, " +
                      std::to_string(blamed(truth_.torn)) + " were torn, " +
                      std::to_string(truth_.apart.size()) + " apart: " + to_json(record));
}

}  // namespace spotter::gang
