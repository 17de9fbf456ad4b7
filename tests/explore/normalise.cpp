// The normal form of a node: what cannot be distinguished is the same.
#include <algorithm>

#include "tests/explore/pack.hpp"
#include "tests/explore/visitors.hpp"
#include "tests/explore/world.hpp"

namespace spotter::explore {

namespace {

void at_least(Time& it, Time limit) {
  if (it != kNever && it < limit) it = limit;
}
void forget(Time& it, Time limit) {
  if (it != kNever && it <= limit) it = kNever;
}

// Past times count up to the limit that they are compared with.
void normalise_times(decide::State& state, const decide::Policy& policy) {
  decide::Facts& facts = state.facts;
  const Duration bound = policy.consistency_bound;
  forget(facts.move.committed_at, kNow - bound);
  if (facts.move.committed_at == kNever) facts.move.original = facts.move.committed = {};
  at_least(facts.holding.claimed_at, kNow - bound - 2 * policy.commit_call);
  at_least(facts.move.parent_gone_since, kNow - 2 * bound);
  at_least(facts.fence.holder_lost_since, kNow - bound);
  at_least(facts.home.keeping_since, kNow - policy.keep_home);
  if (!in_bucket()) facts.home = {};
  if (facts.move.parent_gone_since == kNever) facts.move.elected = {};
  at_least(facts.holding.changing_since, kNow - policy.attaching_limit);
  at_least(facts.tidying.since, kNow - policy.tidy_limit);
  at_least(facts.tidying.candidates_free_since, kNow - bound - policy.ec2_call);
  facts.holding.attach_attempt %= policy.attach_tries;
  at_least(facts.move.snapshot_asked_ahead_at, kNow - bound - policy.ec2_call);
  if (facts.holding.released_at == kNever || facts.holding.released_at <= kNow - bound) {
    facts.holding.released_at = kNever;
    facts.holding.released = {};
  }
  at_least(facts.move.created_at, kNow - bound);
  forget(facts.move.snapshot_asked_at, kNow - bound);
  facts.trouble.blocked = std::min(facts.trouble.blocked, policy.blocked_limit);
  at_least(state.wake_at, kNow);
  if (facts.exit.notice) at_least(facts.exit.notice->deadline, kNow - policy.spared_after);
  at_least(facts.exit.leave_by, kNow);
  if (auto* training = std::get_if<decide::Training>(&state.stage)) {
    at_least(training->next_ledger, kNow);
    at_least(training->next_tidy, kNow);
    at_least(training->next_snapshot, kNow);
  }
  if (auto* tidying = std::get_if<decide::Tidying>(&state.stage)) {
    at_least(tidying->quiet_since, kNow - bound);
    at_least(tidying->marked_at, kNow - 3 * bound);
    tidying->failures = 0;  // every pause is as long as any other here
  }
  if (auto* stopping = std::get_if<decide::Stopping>(&state.stage))
    at_least(stopping->kill_at, kNow);
  if (auto* committing = std::get_if<decide::Committing>(&state.stage))
    at_least(committing->asked_at, kNow - bound);
}

// Counters count up to the limit that they are compared with; those that only lengthen a pause are
// nothing here, where all pauses are the same.
void normalise_counters(decide::State& state, const decide::Policy& policy) {
  state.facts.trouble.retries = std::min(state.facts.trouble.retries, 3U);
  state.facts.trouble.crashes = 0;
  std::visit(
      [&](auto& stage) {
        if constexpr (requires { stage.failures; }) stage.failures = 0;
        if constexpr (requires { stage.kills; }) {
          stage.kills = std::min(stage.kills, policy.stuck_tries);
        }
        if constexpr (requires { stage.tries; }) {
          stage.tries = std::min(stage.tries, policy.stuck_tries);
        }
      },
      state.stage);
}

constexpr std::uint32_t kStartsKept = 2;
constexpr std::uint32_t kMostAttempts = 7;  // as many tokens are kept for a snapshot
// Longer than a poll: what is being created, attached or detached is seen at that.
constexpr Duration kSettles = std::chrono::seconds(10);

// A session's view of the home is of the current epoch, or of an earlier one: nothing depends on
// which earlier one.
constexpr std::uint32_t kPast = 1;

void normalise_fence(decide::Facts::Fence& fence, std::uint32_t now) {
  const bool believes = fence.ours != 0 && fence.ours == fence.epoch.number;
  if (believes && fence.ours != now) fence.ours = fence.epoch.number = kPast;
  if (fence.ours != 0) return;
  fence.self = {};  // the next look says both
  const bool done = fence.epoch.state == decide::Epoch::State::Done;
  if (done) fence.epoch.number = now;
  fence.epoch.holder = {};
  if (!done) fence.epoch = {};
}

void normalise_homes(Node& node) {
  const std::uint32_t now = node.epoch.number;
  const auto of_past = [now](std::uint32_t& it) {
    if (it != 0 && it != now) it = kPast;
  };
  for (Late& it : node.late) {
    auto* write = it.any ? std::get_if<decide::WriteLedger>(&it.command) : nullptr;
    if (!write) continue;
    if (it.caller == kNobody) {
      write->epoch = 0;  // S3 has it already
    } else if (write->epoch != now) {
      it = {};
    }
  }
  for (Host& it : node.hosts) {
    if (it.home.wrote != now) it.home.wrote = it.home.held = 0;
    if (it.mark != it.home.held) it.home.held = 0;
    of_past(it.home.held);
    of_past(it.mark);
    of_past(it.home.keeping_epoch);
    normalise_fence(it.state.facts.fence, now);
    if (auto* write = std::get_if<decide::WriteLedger>(&it.pending.command)) of_past(write->epoch);
    auto* epoch = std::get_if<decide::WriteEpoch>(&it.pending.command);
    if (epoch && epoch->epoch.number != now + 1) epoch->epoch.number = kPast;
    auto* writing = std::get_if<decide::WritingEpoch>(&it.state.stage);
    if (writing && writing->epoch.number != now + 1) writing->epoch.number = kPast;
  }
}

// Numbers only grow: what is not the next one is never written, and another's epoch is read again.
void normalise_epochs(Node& node) {
  for (Late& it : node.late) {
    const auto* write = it.any ? std::get_if<decide::WriteEpoch>(&it.command) : nullptr;
    if (write && write->epoch.number != node.epoch.number + 1) it = {};
  }
  if (in_bucket()) return normalise_homes(node);
  for (std::size_t i = 0; i < node.hosts.size(); ++i) {
    decide::Facts::Fence& fence = node.hosts[i].state.facts.fence;
    const InstanceId self = instance_id(static_cast<std::uint8_t>(i + 1));
    if (fence.ours != node.epoch.number) fence.ours = 0;
    if (fence.epoch.holder != self) fence.epoch = {};
  }
}

void normalise_world(Node& node) {
  for (Volume& it : node.volumes) {
    if (it.old_until <= kNow) it.old_until = kNever;
    if (it.old_until == kNever) it.old = {};
    const bool seen = it.face.there || it.old.there;
    if (!seen) it = {};
    if (it.id && !it.face.there) it.contents = {};
    if (it.face.attachment == decide::AttachmentState::None) it.stuck = false;
    if (!is_changing(it)) {
      it.due = kNever;
    } else if (it.due == kNever) {
      it.due = kNow + kSettles;
    }
    at_least(it.due, kNow);
  }
  for (Snapshot& it : node.snapshots) {
    if (it.old_until <= kNow) it.old_until = kNever;
    if (it.old_until == kNever) it.old_there = false;
    if (!it.there && !it.old_there) it = {};
    if (it.id && !it.there) it.image = {};
  }
  for (Late& it : node.late) {
    if (it.any && it.deadline <= kNow) it = {};
  }
  if (!node.late[0].any && node.late[1].any) std::swap(node.late[0], node.late[1]);
  const auto filled = [](const auto& a, const auto& b) {
    return (a.id ? a.id : 99) < (b.id ? b.id : 99);
  };
  std::sort(node.volumes.begin(), node.volumes.end(), filled);
  std::sort(node.snapshots.begin(), node.snapshots.end(), filled);
  std::array<Snapshot*, 5> by_rank{};
  for (std::size_t i = 0; i < by_rank.size(); ++i) by_rank[i] = &node.snapshots[i];
  std::sort(by_rank.begin(), by_rank.end(),
            [](const auto* a, const auto* b) { return a->rank < b->rank; });
  std::uint8_t rank = 0;
  for (Snapshot* it : by_rank) it->rank = it->id ? ++rank : 0;
}

void limit_starts(decide::Ledger& it) {
  it.starts_without_progress = std::min(it.starts_without_progress, kStartsKept);
}

// Two instances differ by their names alone: of a node and its mirror image one is searched.
bool is_second_first(Node& node) {
  if (!node.hosts[1].alive) return false;
  return !node.hosts[0].alive || pack_host(node, 2) < pack_host(node, 1);
}

}  // namespace

void normalise(Node& node) {
  static const decide::Policy policy = small_policy();
  normalise_world(node);
  normalise_epochs(node);
  for (Host& it : node.hosts) {
    if (!it.alive) it = {};
    limit_starts(it.copy.ledger);
    if (!it.agent) {
      it.state = {};
      it.pending = {};
      it.home = {};
      continue;
    }
    if (it.state.facts.move.create_attempt > kMostAttempts)
      broken(node, "copies are made without end");
    normalise_times(it.state, policy);
    at_least(it.pending.deadline, kNow);  // of a machine that stands still it passes
    normalise_counters(it.state, policy);
    limit_starts(it.state.facts.progress.ledger);
  }
  limit_starts(node.committed.ledger);
  for (Late& it : node.late) limit_starts(it.contents.ledger);
  for (Volume& it : node.volumes) limit_starts(it.contents.ledger);
  Collector seen;
  walk(seen, node);
  Renamer renamer;
  renamer.volumes = order(seen.volumes, false);
  renamer.snapshots = order(seen.snapshots, false);
  renamer.generations = order(seen.generations, true);
  renamer.moved = order(seen.moved, true);
  renamer.versions = order(seen.versions, false);
  renamer.epochs = order(seen.epochs, true);
  walk(renamer, node);
  if (is_second_first(node)) mirror(node);
}

}  // namespace spotter::explore
