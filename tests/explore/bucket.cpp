// A home in a bucket in the abstract: the head with what it names, and the working copies. The work
// of agent/service/act/home.cpp and tier/home.hpp takes one instant each; what is in doubt is
// carried out later, or never. Removing what no manifest needs is left out.
#include <algorithm>

#include "tests/explore/world.hpp"

namespace spotter::explore {

using namespace decide;

namespace {

EffectFailed home_failure(Failure kind) {
  EffectFailed result;
  result.failure = kind;
  return result;
}

// No two versions have the same bytes: a write of one that died, made for the one before, is
// refused.
void head_is_written(Node& node) {
  for (Late& it : node.late) {
    const bool of_the_dead = it.any && it.caller == kNobody;
    if (of_the_dead && std::holds_alternative<WriteLedger>(it.command)) it = {};
  }
}

}  // namespace

bool is_held(const Node& node, std::uint8_t place, std::uint32_t epoch) {
  return node.epoch.number == epoch && node.epoch_holder == place &&
         node.epoch.state == Epoch::State::Using;
}

bool in_bucket() { return small_policy().storage == StorageKind::Bucket; }

bool is_lease_over(const Node& node) {
  const bool lives = node.epoch_holder == 1 || node.epoch_holder == 2;
  return lives && node.hosts[node.epoch_holder - 1].paused;
}

// The working copy is newer if it was brought, or kept, in this epoch, or in the one before it, if
// that was ours and nobody came between.
Happening bring(Node& node, Host& host) {
  const auto place = static_cast<std::uint8_t>(&host - node.hosts.data() + 1);
  const std::uint32_t epoch = node.epoch.number;
  if (!is_held(node, place, epoch)) return home_failure(Failure::Conflict);
  const std::uint32_t held = epoch == host.home.wrote ? host.home.held : epoch;
  const bool newer = host.mark != 0 && (host.mark == epoch || host.mark == held);
  if (!newer) {
    host.copy = node.committed;
    if (host.trainer.state == Trainer::State::Ended) host.trainer = {};
  } else {
    host.copy.newest = std::max(host.copy.newest, node.committed.newest);
    host.copy.result = host.copy.result || node.committed.result;
  }
  host.copy.blank = false;
  host.mark = epoch;
  return Mounted{!newer};
}

bool commit(Node& node, std::uint8_t place, std::uint32_t epoch, const Contents& copy) {
  if (place != kNobody && !is_held(node, place, epoch)) return false;
  if (node.epoch.state != Epoch::State::Using)
    broken(node, "something is committed to a home that nobody uses");
  Contents content = copy;
  if (content.torn) content.newest = std::max(node.committed.newest, content.newest - 1);
  content.torn = false;
  content.newest = std::max(content.newest, std::int64_t{-1});
  if (content.newest < 0) content.newest = node.committed.newest;  // those that are there stay
  if (content.newest < node.durable) broken(node, "a committed checkpoint is lost");
  if (node.committed.result && !content.result) broken(node, "a committed result is lost");
  node.committed = content;
  node.durable = std::max(node.durable, content.newest);
  if (content.ledger.newest_step >= node.durable) node.in_vain = node.in_vain_since;
  head_is_written(node);
  return true;
}

void overtake(Node& node, std::uint8_t place) {
  for (Late& it : node.late) {
    const bool of_it = it.any && it.caller == place;
    if (of_it && std::holds_alternative<WriteLedger>(it.command)) it = {};
  }
}

Happening keep(Node& node, Host& host, const WriteLedger& it) {
  if (host.mark == 0) return home_failure(Failure::MountFailed);
  const auto place = static_cast<std::uint8_t>(&host - node.hosts.data() + 1);
  write_locally(host, it.ledger);
  host.mark = node.epoch_holder == place ? node.epoch.number : host.mark;
  const std::uint32_t epoch = it.epoch != 0 ? it.epoch : node.epoch.number;
  overtake(node, place);
  if (!commit(node, place, epoch, host.copy)) return home_failure(Failure::Conflict);
  return LedgerWritten{};
}

void write_locally(Host& host, const Ledger& ledger) {
  host.copy.ledger = ledger;
  host.copy.ledger.seconds = host.copy.ledger.dollars = 0;
}

// EpochWritten, or Failure::Conflict. `place`: kNobody: who asked is dead.
Happening write_epoch(Node& node, std::uint8_t place, const Epoch& epoch) {
  if (node.epoch.number + 1 != epoch.number) return home_failure(Failure::Conflict);
  const bool lives = node.epoch_holder == 1 || node.epoch_holder == 2;
  const bool taken = epoch.state == Epoch::State::Using && lives && node.epoch_holder != place &&
                     node.epoch.state == Epoch::State::Using;
  if (taken && !node.was_paused) broken(node, "the home is taken from a machine that works");
  if (node.epoch.state == Epoch::State::Done && node.epoch.number != 0)
    broken(node, "the head of a job that is done is written again");
  if (epoch.state == Epoch::State::Done && !node.committed.result)
    broken(node, "done is said before the result is in the bucket");
  const bool others = node.epoch_holder != place && place != kNobody;
  if (epoch.state != Epoch::State::Using && others)
    broken(node, "a machine releases a home that it does not have");
  node.epoch = epoch;
  node.epoch.holder = {};
  node.epoch_holder = place == kNobody ? std::uint8_t{kDying} : place;
  head_is_written(node);
  return EpochWritten{};
}

// Two may train at once; what counts is what is committed.
void judge_start_in_bucket(Node& node, const Host& host) {
  const auto place = static_cast<std::uint8_t>(&host - node.hosts.data() + 1);
  const bool ours = is_held(node, place, node.epoch.number);
  if (ours && host.copy.newest < node.durable)
    broken(node, "a trainer resumes from something older than what is committed");
}

}  // namespace spotter::explore
