// One walk over everything in a Node, by kind of value: packing, unpacking, renaming and moving
// time are four visitors of it. A new field of the core's state does not compile here until it is
// listed: the search would else be blind to it.
#pragma once

#include <utility>

#include "tests/explore/model.hpp"

namespace spotter::explore {

// A visitor has: flag(bool&), small(any small integer or enum&), time(Time&), volume(VolumeId&),
// volume(uint8&), snapshot(both), instance(InstanceId&), place(uint8&: of an instance, or what is
// left of one), zone(Zone&), generation(uint32&), moves(uint32&), version(int64&), epoch(uint32&).
// Only a reading visitor changes what decides how the walk goes on.

constexpr Duration kBlockedRound = std::chrono::seconds(10);  // policy.cpp: blocked_retry

template <class A>
void walk(A& a, decide::Ledger& it) {
  auto& [attempts, starts, hangs, newest, seconds, dollars, losses, crashes, releases, running,
         stall, stalled, speaks, done, reached, repeated, trained, s3_writes, s3_reads, given_up,
         stopped_early] = it;
  a.small(attempts);
  a.small(starts);
  a.small(hangs);
  a.version(newest);
  (void)seconds, (void)dollars;               // only summed: the policy here has no limit on them
  (void)losses, (void)releases, (void)stall;  // only the pace is chosen from them
  (void)crashes;
  (void)reached, (void)repeated, (void)trained, (void)stalled, (void)stopped_early;  // for persons
  (void)s3_writes, (void)s3_reads;
  (void)given_up;  // no machine shuts down here
  a.flag(running);
  a.flag(speaks);
  a.flag(done);
}

template <class A>
void walk(A& a, std::optional<decide::Notice>& it) {
  bool any = it.has_value();
  a.flag(any);
  if (any && !it) it.emplace();
  if (!any) return it.reset();
  auto& [action, deadline, held, leeway] = *it;
  (void)held, (void)leeway;  // there are no Auto Scaling groups here, and no capacity blocks
  a.small(action);
  a.time(deadline);
}

template <class A>
void walk(A& a, decide::Epoch& it) {
  auto& [state, number, line, volume, generation, holder, left] = it;
  a.epoch(number);
  if (number == 0) return;
  a.small(state), a.volume(line), a.volume(volume), a.generation(generation);
  a.instance(holder), a.volume(left);
}

// --- stages and commands: each one's fields, by their number and type ---
template <class A>
struct Field {
  A& a;
  void operator()(bool& it) const { a.flag(it); }
  void operator()(Time& it) const { a.time(it); }
  void operator()(VolumeId& it) const { a.volume(it); }
  void operator()(SnapshotId& it) const { a.snapshot(it); }
  void operator()(InstanceId& it) const { a.instance(it); }
  void operator()(Zone& it) const { a.zone(it); }
  void operator()(decide::Ledger& it) const { walk(a, it); }
  void operator()(decide::Epoch& it) const { walk(a, it); }
  void operator()(std::uint32_t& it) const { a.small(it); }
  void operator()(std::int64_t& it) const { a.version(it); }  // a step
  void operator()(Duration&) const {}                         // how long, for the trainer
  void operator()(decide::Detail&) const {}                   // for persons
  void operator()(ShortText<31>&) const {}  // the device's name: one kind of machine here
  void operator()(Fleet&) const {}          // there is only one
  void operator()(Device& it) const {       // here a volume's name
    VolumeId volume(it.view());
    a.volume(volume);
    it = Device(volume.view());
  }
  void operator()(decide::EffectId&) const {}
  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(Enum& it) const { a.small(it); }
};

template <class A, class T>
void walk_fields(A& a, T& it) {
  const Field<A> field{a};
  if constexpr (std::is_same_v<T, decide::WriteLedger>) {
    auto& [ledger, epoch] = it;
    field(ledger), a.epoch(epoch);
  } else if constexpr (requires { it.generation; }) {  // a number with an order of its own
    if constexpr (requires { it.attempt; }) {
      auto& [zone, snapshot, parent, generation, lineage, moves, attempt, rate] = it;
      field(zone), field(snapshot), field(parent), a.generation(generation), field(attempt);
      (void)lineage, (void)moves;  // one job; the world knows how often it has moved
      (void)rate;                  // no price is known, and none is paid
    } else if constexpr (requires { it.taken; }) {
      auto& [volume, generation, lineage, moves, taken] = it;
      field(volume), a.generation(generation), field(taken);
      (void)lineage, (void)moves;
    } else if constexpr (requires { it.asked_at; }) {
      auto& [parent, asked_at, generation] = it;
      field(parent), field(asked_at), a.generation(generation);
    } else if constexpr (requires { it.original; }) {
      auto& [candidate, original, generation, by] = it;
      field(candidate), field(original), a.generation(generation);
      (void)by;  // calls take no time
    } else {
      auto& [volume, generation] = it;
      field(volume), a.generation(generation);
    }
  } else if constexpr (std::is_empty_v<T>) {
  } else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    auto& [p, q, r, s, t, u, v, w, x] = it;
    field(p), field(q), field(r), field(s), field(t), field(u), field(v), field(w), field(x);
  } else if constexpr (requires { T{{}, {}, {}, {}, {}}; }) {
    auto& [u, v, w, x, y] = it;
    field(u), field(v), field(w), field(x), field(y);
  } else if constexpr (requires { T{{}, {}, {}, {}}; }) {
    auto& [u, v, w, x] = it;
    field(u), field(v), field(w), field(x);
  } else if constexpr (requires { T{{}, {}, {}}; }) {
    auto& [u, v, w] = it;
    field(u), field(v), field(w);
  } else if constexpr (requires { T{{}, {}}; }) {
    auto& [u, v] = it;
    field(u), field(v);
  } else {
    auto& [u] = it;
    field(u);
  }
}

template <class Variant, std::size_t... I>
void become(Variant& it, std::size_t index, std::index_sequence<I...>) {
  ((index == I ? (void)it.template emplace<I>() : void()), ...);
}

template <class A, class... Kinds>
void walk(A& a, std::variant<Kinds...>& it) {
  auto index = static_cast<std::uint8_t>(it.index());
  a.small(index);
  if (index != it.index()) become(it, index, std::index_sequence_for<Kinds...>());
  std::visit([&](auto& kind) { walk_fields(a, kind); }, it);
}

// --- facts: a part each ---
template <class A>
void walk(A& a, decide::Facts::Identity& it) {
  auto& [instance, type, zone, region, fleet, fleet_known, fleet_asked_at, fleet_call_at,
         dollars_per_hour, ec2, shut_down, once] = it;
  const Field<A> field{a};
  // Always the same here.
  (void)type, (void)region, (void)fleet, (void)dollars_per_hour, (void)ec2, (void)shut_down;
  (void)once;
  (void)fleet_asked_at, (void)fleet_call_at;  // the fleet is known with the first answer
  field(instance), field(zone), field(fleet_known);
}

template <class A>
void walk(A& a, decide::Facts::Holding& it) {
  auto& [volume, purpose, ours_to_format, attached, attached_as, attach_attempt, changing_since,
         device, mounted, unproven, generation, claimed_at, released, released_at, data] = it;
  const Field<A> field{a};
  (void)attached_as;  // of the device's name
  field(volume), field(purpose), field(ours_to_format), field(attached), field(attach_attempt);
  field(changing_since), field(device), field(mounted), field(unproven), a.generation(generation);
  field(claimed_at), field(released), field(released_at), field(data);
}

template <class A>
void walk(A& a, decide::Facts::Move& it) {
  auto& [lineage, moves, create_attempt, created_at, snapshot_asked_at, snapshot_asked_ahead_at,
         unpaid, rate_dollars, verified, marked, proven_step, original, committed, committed_at,
         parent_gone_since, elected] = it;
  const Field<A> field{a};
  (void)moves;  // only for tags, which the world here makes itself
  (void)unpaid, (void)rate_dollars;
  field(lineage), field(create_attempt), field(created_at), field(snapshot_asked_at);
  field(snapshot_asked_ahead_at), field(verified), field(marked), field(proven_step);
  field(parent_gone_since), field(elected), field(original), field(committed), field(committed_at);
}

template <class A>
void walk(A& a, decide::Facts::Fence& it) {
  auto& [epoch, ours, holder_lost_since, holder_lost_in, self] = it;
  walk(a, epoch), a.instance(self);
  a.epoch(ours), a.time(holder_lost_since), a.epoch(holder_lost_in);
}

template <class A>
void walk(A& a, decide::Facts::Home& it) {
  auto& [keeping_since, keeping, changed, newer, brought, kept_step, upload, upload_bytes] = it;
  (void)upload, (void)upload_bytes;  // it takes no time here
  a.time(keeping_since), a.flag(changed), a.version(kept_step);
  a.flag(newer), a.flag(brought);
  keeping = keeping_since != kNever ? decide::EffectId{2, 1} : decide::EffectId{};
}

template <class A>
void walk(A& a, decide::Facts::Tidying& it) {
  auto& [since, candidates_free_since, data_left] = it;
  const Field<A> field{a};
  (void)data_left;  // for persons
  field(since), field(candidates_free_since);
}

template <class A>
void walk(A& a, decide::Facts::Trainer& it) {
  auto& [running, ended_success, started_at, reported_at, advised_interval, step, resumed_step,
         checkpoint_at] = it;
  (void)started_at;                             // only sums
  (void)reported_at;                            // silence is not searched
  (void)advised_interval, (void)checkpoint_at;  // only the pace
  (void)step, (void)resumed_step;
  a.flag(running), a.flag(ended_success);
}

template <class A>
void walk(A& a, decide::Facts::Progress& it) {
  auto& [ledger, ledger_known, others, counted_until, checkpoint_step, counts_writes] = it;
  (void)counted_until, (void)others;  // only sums
  (void)checkpoint_step, (void)counts_writes;
  walk(a, ledger), a.flag(ledger_known);
}

template <class A>
void walk(A& a, decide::Facts::Trouble& it) {
  auto& [retries, blocked, setups, left_since, crashes, change] = it;
  // Pauses, and a limit that is not reached here.
  (void)setups, (void)left_since, (void)crashes, (void)change;
  auto rounds = static_cast<std::uint8_t>(blocked / kBlockedRound);
  a.small(retries), a.small(rounds);
  blocked = rounds * kBlockedRound;
}

template <class A>
void walk(A& a, decide::Facts::Exit& it) {
  auto& [notice, leave, leave_by, unfit, hinders_gang, surrender, done, filled] = it;
  (void)filled, (void)hinders_gang;  // nobody prepares here, or is in a gang
  walk(a, notice), a.flag(leave), a.time(leave_by), a.flag(unfit), a.small(surrender), a.flag(done);
}

template <class A>
void walk(A& a, decide::Facts& facts) {
  auto& [identity, holding, move, fence, home, tidying, trainer, progress, trouble, exit] = facts;
  walk(a, home), walk(a, identity), walk(a, holding), walk(a, move), walk(a, fence),
      walk(a, tidying);
  walk(a, trainer);
  walk(a, progress), walk(a, trouble), walk(a, exit);
}

template <class A>
void walk(A& a, decide::State& state) {
  auto& [facts, stage, awaited, wake_at, incarnation, effects_made] = state;
  (void)incarnation, (void)effects_made;  // numbers of questions: only compared with `awaited`
  bool waits = static_cast<bool>(awaited);
  walk(a, facts);
  walk(a, stage);
  a.flag(waits);
  awaited = waits ? decide::EffectId{1, 1} : decide::EffectId{};
  a.time(wake_at);
}

// --- the world ---
template <class A>
void walk(A& a, Contents& it) {
  a.flag(it.blank), a.flag(it.torn), a.flag(it.result), a.version(it.newest);
  walk(a, it.ledger);
}

template <class A>
void walk(A& a, Face& it) {
  a.flag(it.there), a.flag(it.discoverable), a.flag(it.done), a.small(it.state), a.small(it.role);
  a.small(it.attachment), a.place(it.holder), a.generation(it.generation);
}

template <class A>
void walk(A& a, Volume& it) {
  a.volume(it.id);
  if (!it.id) return;
  walk(a, it.face);
  a.time(it.old_until);
  if (it.old_until != kNever) walk(a, it.old);
  a.small(it.zone), a.volume(it.parent), a.snapshot(it.from), a.small(it.attempt);
  a.moves(it.moves);
  a.flag(it.to_format), a.flag(it.stuck), a.time(it.due);
  walk(a, it.contents);
}

template <class A>
void walk(A& a, Snapshot& it) {
  a.snapshot(it.id);
  if (!it.id) return;
  a.flag(it.there), a.time(it.old_until), a.flag(it.old_there), a.small(it.state);
  a.volume(it.parent), a.small(it.taken), a.small(it.rank), a.generation(it.generation);
  a.moves(it.moves);
  a.small(it.tokens[0]), a.small(it.tokens[1]);
  walk(a, it.image);
}

template <class A>
void walk(A& a, Pending& it) {
  a.flag(it.any);
  if (!it.any) return;
  a.flag(it.abandoned), a.small(it.lost);
  if (it.lost != Pending::Lost::No) a.time(it.deadline);
  walk(a, it.command);
}

template <class A>
void walk(A& a, Late& it) {
  a.flag(it.any);
  if (!it.any) return;
  a.place(it.caller), a.time(it.deadline);
  walk(a, it.command);
  if (std::holds_alternative<decide::WriteLedger>(it.command)) walk(a, it.contents);
}

template <class A>
void walk(A& a, Trainer& it) {
  a.small(it.state);
  if (it.state == Trainer::State::None) return;
  a.flag(it.success), a.flag(it.as_asked), a.flag(it.asked), a.flag(it.doomed), a.flag(it.deaf);
  a.flag(it.watched), a.version(it.step);
}

template <class A>
void walk(A& a, Host& it) {
  a.flag(it.alive);
  if (!it.alive) return;
  a.small(it.zone), a.volume(it.mounted), a.flag(it.read_only);
  walk(a, it.trainer);
  a.flag(it.agent), a.flag(it.left);
  a.flag(it.noticed);
  if (it.noticed) a.flag(it.notified), a.flag(it.stop), a.time(it.deadline);
  a.epoch(it.mark), a.flag(it.paused);
  if (it.mark != 0) walk(a, it.copy);
  if (!it.agent) return;
  walk(a, it.state);
  walk(a, it.pending);
  a.epoch(it.home.wrote), a.epoch(it.home.held), a.flag(it.home.keeping),
      a.epoch(it.home.keeping_epoch);
}

template <class A>
void walk(A& a, Node& node) {
  for (Volume& it : node.volumes) walk(a, it);
  for (Snapshot& it : node.snapshots) walk(a, it);
  for (Late& it : node.late) walk(a, it);
  for (Host& it : node.hosts) walk(a, it);
  walk(a, node.epoch), a.place(node.epoch_holder);
  walk(a, node.committed), a.flag(node.was_paused);
  a.flag(node.cancelled), a.flag(node.scaled_to_zero), a.version(node.durable);
  a.small(node.in_vain), a.small(node.in_vain_since), a.flag(node.refused);
}

}  // namespace spotter::explore
