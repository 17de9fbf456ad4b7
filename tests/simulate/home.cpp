// An agent's work on a home in a bucket, as agent/service/act/home.cpp and the verbs of
// tier/home.hpp do it: looking, taking the epoch, bringing the files here, sending and committing
// them, renewing the lease.
#include <algorithm>
#include <utility>

#include "agent/decide/describe.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using decide::EffectFailed;
using decide::Failure;
using decide::Happening;
using decide::HomeKept;
using std::chrono::milliseconds;
using std::chrono::seconds;
using State = decide::Epoch::State;

namespace {

constexpr std::size_t kKeptCheckpoints = 2;

bool has_step(const Disk& disk, std::int64_t step) {
  return std::any_of(disk.checkpoints.begin(), disk.checkpoints.end(),
                     [&](const Checkpoint& it) { return !it.torn && it.step == step; });
}

// The newest ones that are whole; where there is none, those that are committed stay.
std::vector<Checkpoint> to_send(const Disk& here, const Disk& committed) {
  std::vector<Checkpoint> whole;
  for (const Checkpoint& it : here.checkpoints) {
    if (!it.torn) whole.push_back(it);
  }
  if (whole.empty()) return committed.checkpoints;
  if (whole.size() > kKeptCheckpoints) whole.erase(whole.begin(), whole.end() - kKeptCheckpoints);
  return whole;
}

// Adds only what is missing: everything here is newer than what is committed.
void add_missing(Disk& here, const Disk& there) {
  if (!here.ledger) here.ledger = there.ledger;
  here.result = here.result || there.result;
  for (const Checkpoint& it : there.checkpoints) {
    if (!has_step(here, it.step)) here.checkpoints.push_back(it);
  }
  std::stable_sort(here.checkpoints.begin(), here.checkpoints.end(),
                   [](const Checkpoint& a, const Checkpoint& b) { return a.step < b.step; });
}

}  // namespace

void Simulation::answer_from_home(Host& host, const decide::Effect& effect, Happening what) {
  if (!survives(host, Side::AfterEffect, name(effect.what))) return;
  take(host, {now_, effect.id, std::move(what)});
}

// --- looking, and taking the epoch: beside other work ---

// Like act::Home::state_of(): EC2 may not know, or not answer.
decide::HolderState Simulation::state_of_holder(const InstanceId& holder, Duration age) {
  using Its = decide::HolderState;
  const Its by_lease = wire::is_lease_over(age) ? Its::Gone : Its::Alive;
  if (!holder.view().starts_with("i-")) return by_lease;
  if (refused("DescribeInstances") || fires(menu_.call_fails / 2)) return by_lease;
  const world::Instance* its = world_.instances(now_).seen(holder);
  if (!its) return by_lease;
  if (its->state == world::InstanceState::Terminated) return Its::Gone;
  return its->state == world::InstanceState::Stopped ? Its::Stopped : Its::Alive;
}

void Simulation::survey_home(Host& host, const decide::Effect& effect) {
  const Duration limit = effect.deadline - now_;
  read_head(host, by_the_limit(host, limit / 2, [this, effect](Host& its, const Found& found) {
              if (!found) return answer_from_home(its, effect, found.error());
              decide::StorageSurveyed seen;
              seen.survey.epoch = found->head.epoch;
              seen.survey.epoch_self = self_of(its);
              const InstanceId holder = found->head.epoch.holder;
              const bool held = found->head.epoch.state == State::Using && holder != self_of(its);
              if (!held) return answer_from_home(its, effect, seen);
              at(between(milliseconds(20), milliseconds(400)),
                 [this, id = its.id, run = its.agent.run, effect, seen, holder, age = found->age] {
                   when_awake(id, run, [this, effect, seen, holder, age](Host& now) {
                     decide::StorageSurveyed all = seen;
                     all.survey.epoch_holder = state_of_holder(holder, age);
                     answer_from_home(now, effect, all);
                   });
                 });
            }));
}

void Simulation::write_home_epoch(Host& host, const decide::Effect& effect) {
  const decide::Epoch next = std::get<decide::WriteEpoch>(effect.what).epoch;
  if (next.state != State::Using) {
    host.agent.home.renewing = 0;
    host.agent.home.leaving = now_;
  }
  const wire::HomeNames names{kJob, fence_dice_.hex(32)};
  const HeadMaker make = [next, names](const wire::SeenHead& seen) {
    return wire::to_epoch(seen, next, names);
  };
  const auto answered = [this, effect, next](Host& its, const Found& before) {
    if (!before) return answer_from_home(its, effect, before.error());
    const decide::Epoch& old = before->head.epoch;
    its.agent.home.epoch = next.number;
    its.agent.home.unsure = false;
    its.agent.home.held = old.holder == next.holder && old.state == State::Using ? old.number : 0;
    answer_from_home(its, effect, decide::EpochWritten{});
  };
  change_head(host, {make, effect.deadline - now_, answered});
}

// --- the lease ---

void Simulation::begin_renewing(Host& host, std::uint32_t epoch) {
  if (host.agent.home.renewing == epoch) return;
  host.agent.home.renewing = epoch;
  host.agent.home.renewal = ++numbers_;
  renew_later(host);
}

void Simulation::renew_later(const Host& host) {
  const std::uint64_t number = host.agent.home.renewal;
  const auto renew = [this, number](Host& its) {
    if (its.agent.home.renewing == 0 || its.agent.home.renewal != number) return;
    const wire::HeadHolder holder{its.agent.home.renewing, self_of(its)};
    const HeadMaker make = [holder](const wire::SeenHead& seen) {
      return wire::to_renewed(seen, holder);
    };
    const auto then = [this, number](Host& now, const Found& before) {
      const bool lost = !before && before.error().failure == Failure::Conflict;
      if (!lost && now.agent.home.renewal == number) renew_later(now);
    };
    change_head(its, {make, policy_.epoch_call, then});
  };
  at(wire::head_lease,
     [this, id = host.id, run = host.agent.run, renew] { when_awake(id, run, renew); });
}

// --- work on the files: one piece after the other ---

// False: it is done as on any storage.
bool Simulation::begin_at_home(Host& host) {
  const decide::Command& asked = host.agent.working->what;
  const bool brings = std::holds_alternative<decide::PrepareShare>(asked);
  if (!brings && !std::holds_alternative<decide::WriteLedger>(asked)) return false;
  go_on_at_home(host, between(milliseconds(20), milliseconds(800)),
                [this, brings](Host& its) { brings ? bring_home(its) : keep_home(its); });
  return true;
}

// Unless the work was given up meanwhile.
std::function<void(Host&)> Simulation::while_at_work(const Host& host,
                                                     std::function<void(Host&)> then) {
  return [number = host.agent.work, then = std::move(then)](Host& its) {
    if (its.agent.working && its.agent.work == number) then(its);
  };
}

void Simulation::go_on_at_home(const Host& host, Duration later, std::function<void(Host&)> then) {
  at(later, [this, id = host.id, run = host.agent.run, goes = while_at_work(host, then)] {
    when_awake(id, run, goes);
  });
}

// The head, as the work on the files asks for it.
void Simulation::find_head(const Host& host, FoundThen then) {
  const Duration limit =
      std::min<Duration>(host.agent.working->deadline - now_, policy_.epoch_call);
  const FoundThen guarded = [number = host.agent.work, then](Host& its, const Found& found) {
    if (its.agent.working && its.agent.work == number) then(its, found);
  };
  read_head(host, by_the_limit(host, limit, guarded));
}

void Simulation::finish_at_home(Host& host, const Happening& what) {
  const decide::Command asked = host.agent.working->what;
  if (survives(host, Side::AfterEffect, name(asked))) end_work(host, what);
}

// A verb that sends or fetches so much. It fails when S3 does, or takes too long.
void Simulation::transfer(const Host& host, bool much, std::function<void(Host&)> then,
                          std::function<void(Host&, EffectFailed)> failed) {
  const Duration most = much ? bucket_.transfer : Duration(seconds(1));
  const Duration takes = milliseconds(100) + fence_dice_.within({most / 2, most * 3 / 2});
  const Duration left = std::max<Duration>(host.agent.working->deadline - now_, Duration(1));
  if (fence_fails() && fence_dice_.below(2) == 0) {
    return go_on_at_home(host, fence_dice_.up_to(std::min(takes, left)), [failed](Host& its) {
      failed(its, failure(Failure::Unavailable, "s3: SlowDown"));
    });
  }
  if (takes < left) return go_on_at_home(host, takes, std::move(then));
  go_on_at_home(host, left, [failed](Host& its) {
    failed(its, failure(Failure::Unavailable, "it took too long", true));
  });
}

void Simulation::bring_home(Host& host) {
  find_head(host, [this](Host& its, const Found& found) {
    if (!found) return finish_at_home(its, found.error());
    const std::uint32_t number = found->head.epoch.number;
    if (!wire::is_held(found->head, {number, self_of(its)}))
      return finish_at_home(its, failure(Failure::Conflict, "another machine has taken it"));
    begin_renewing(its, number);  // also where nothing can be brought: it stays this machine's
    if (disks_[its.mounted].full)
      return finish_at_home(its, failure(Failure::MountFailed, "no space left on device"));
    const AtHome& home = its.agent.home;
    fetch_home(its, found->head, number == home.epoch ? home.held : number);
  });
}

// Like tier::bring(), begins by clearing what is of another history, or older.
void Simulation::fetch_home(Host& host, const wire::Head& head, std::uint32_t held) {
  const std::uint32_t epoch = head.epoch.number;
  std::optional<Mark>& mark = bucket_.marks[host.id];
  const bool newer = mark && (mark->epoch == epoch || (held != 0 && mark->epoch == held));
  Disk there;
  if (!head.manifest.empty()) {
    const auto found = bucket_.manifests.find(head.manifest);
    if (found == bucket_.manifests.end())
      return finish_at_home(host, failure(Failure::Rejected, "NoSuchKey"));
    there = found->second;
  }
  if (!newer) {
    mark.reset();
    disks_[host.mounted].checkpoints.clear();
    disks_[host.mounted].ledger.reset();
    disks_[host.mounted].result = false;
    host.trainer.result_unsynced = false;
  }
  const auto placed = [this, there, newer, epoch, manifest = head.manifest](Host& its) {
    Disk& here = disks_[its.mounted];
    if (here.full)
      return finish_at_home(its, failure(Failure::MountFailed, "no space left on device"));
    add_missing(here, there);
    bucket_.marks[its.id] = Mark{epoch, manifest};
    say(its.id.view(), "      the home is here, step ", here.newest(), newer ? ", newer" : "");
    if (!newer) forget_end(its);  // as Performer::prepare_share()
    finish_at_home(its, decide::Mounted{!newer});
  };
  transfer(host, !newer && there.newest() >= 0, placed,
           [this](Host& its, const EffectFailed& why) { finish_at_home(its, why); });
}

void Simulation::tell_kept(Host& host, const HomeKept& kept, const Happening& outcome) {
  const auto answer =
      while_at_work(host, [this, outcome](Host& its) { finish_at_home(its, outcome); });
  const std::uint64_t run = host.agent.run;
  sense(host, kept);
  if (Host* its = agent_of(host.id, run)) answer(*its);
}

void Simulation::keep_home(Host& host) {
  HomeKept failed;
  failed.outcome = HomeKept::Outcome::Failed;
  const Happening written = work_on_files(host, host.agent.working->what);
  if (!std::holds_alternative<decide::LedgerWritten>(written))
    return tell_kept(host, failed, written);
  find_head(host, [this, began = now_, failed](Host& its, const Found& found) {
    if (!found) return tell_kept(its, failed, found.error());
    std::uint32_t epoch = std::get<decide::WriteLedger>(its.agent.working->what).epoch;
    if (epoch == 0) epoch = found->head.epoch.number;
    if (!wire::is_held(found->head, {epoch, self_of(its)})) {
      HomeKept lost;
      lost.outcome = HomeKept::Outcome::Lost;
      return tell_kept(its, lost, failure(Failure::Conflict, "another machine has taken it"));
    }
    begin_renewing(its, epoch);
    send_home(its, found->head, epoch, began);
  });
}

// Like tier::keep(), first removes what no manifest needs any more.
void Simulation::send_home(Host& host, const wire::Head& head, std::uint32_t epoch, Time began) {
  std::optional<Mark>& mark = bucket_.marks[host.id];
  Disk committed;
  if (!head.manifest.empty()) {
    const auto found = bucket_.manifests.find(head.manifest);
    if (found == bucket_.manifests.end()) {
      return tell_kept(host, {.outcome = HomeKept::Outcome::Failed},
                       failure(Failure::Rejected, "NoSuchKey"));
    }
    committed = found->second;
    if (!host.agent.home.unsure)
      trim_home(head.manifest, mark && mark->epoch == epoch ? mark->manifest : "", epoch);
  }
  const Disk& here = disks_[host.mounted];
  Disk content;
  content.ledger = here.ledger;
  content.result = here.result || (host.trainer.result_unsynced && host.mounted);
  content.checkpoints = to_send(here, committed);
  const bool sends = content.newest() >= 0 && !has_step(committed, content.newest());
  const auto sent = [this, content, epoch, began, sends](Host& its) {
    const std::string name =
        "manifests/" + std::to_string(epoch) + "-" + fence_dice_.hex(32) + ".json";
    bucket_.manifests[name] = content;
    bucket_.marks[its.id] = Mark{epoch, name};
    HomeKept kept;
    kept.newest = content.newest();
    kept.bytes = sends ? 1'000'000 : 0;
    commit_home(its, name, epoch, kept, began);
  };
  transfer(host, sends, sent, [this](Host& its, const EffectFailed& why) {
    tell_kept(its, {.outcome = HomeKept::Outcome::Failed}, why);
  });
}

void Simulation::trim_home(const std::string& committed, const std::string& marked,
                           std::uint32_t epoch) {
  std::erase_if(bucket_.manifests, [&](const auto& each) {
    const std::string number = each.first.substr(each.first.find('/') + 1);
    return std::stoul(number) <= epoch && each.first != committed && each.first != marked;
  });
  judge_manifests();
}

void Simulation::commit_home(Host& host, const std::string& manifest, std::uint32_t epoch,
                             const HomeKept& sent, Time began) {
  wire::Head content;
  content.manifest = manifest;
  content.newest = sent.newest;
  host.agent.home.unsure = true;
  const wire::HeadHolder holder{epoch, self_of(host)};
  const HeadMaker make = [content, holder](const wire::SeenHead& seen) {
    return wire::to_content(seen, holder, content);
  };
  const auto goes_on = [number = host.agent.work](const Host& its) {
    return its.agent.working && its.agent.work == number;
  };
  const auto answered = [this, sent, began, goes_on](Host& its, const Found& before) {
    if (!goes_on(its)) return;
    HomeKept kept = sent;
    kept.took = now_ - began;
    its.agent.home.unsure = !before;
    if (before) return tell_kept(its, kept, decide::LedgerWritten{});
    const bool lost = before.error().failure == Failure::Conflict;
    kept.outcome = lost ? HomeKept::Outcome::Lost : HomeKept::Outcome::Failed;
    tell_kept(its, kept, before.error());
  };
  const Duration limit =
      std::min<Duration>(host.agent.working->deadline - now_, policy_.epoch_call);
  change_head(host, {make, limit, answered, goes_on});
}

}  // namespace spotter::simulate
