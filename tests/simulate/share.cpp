// A job on a share: its server, which may be silent, die, or let nobody write, and what an agent's
// work comes to on it (agent/service/act/performer.cpp, local.cpp). And `spotter
// run`'s owner, who starts it again.
#include <algorithm>
#include <tuple>

#include "agent/decide/describe.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using decide::EffectFailed;
using decide::Failure;
using decide::Happening;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// The agent knows by then that the server hangs (service/act/local.hpp: kEvery and kPatience).
constexpr Duration kSilenceKnown = seconds(20);
// A child that is stuck in the kernel is answered for after two graces (io/process.hpp).
constexpr Duration kStuckChild = seconds(4);

// True but for what looks at this machine only, or releases.
bool touches_server(const decide::Command& command) {
  return !std::holds_alternative<decide::LookAtHost>(command) &&
         !std::holds_alternative<decide::ReleaseShare>(command) &&
         !std::holds_alternative<decide::AwaitGpus>(command) &&
         !std::holds_alternative<decide::StartTrainer>(command);
}

}  // namespace

// Drawn from a sequence of their own: runs on a volume stay the same for each seed.
void Simulation::choose_share() {
  if (choice_.bucket) return choose_bucket();
  world::Random dice(verdict_.seed * 7919 + 3);
  if (dice.below(4) != 0) return;
  policy_.storage = decide::StorageKind::Share;
  share_.folder = dice.below(4) == 0;
  share_.once = policy_.foreground = dice.below(4) == 0;
  for (std::size_t i = kFirstShareFault; i < kFirstGpuFault; ++i) menu_.on[i] = dice.below(3) != 0;
  for (const Fault fault : {Fault::SecondVolume, Fault::VolumeDeleted, Fault::UntaggedBlank,
                            Fault::ForeignDisk, Fault::KeyForbidden}) {
    menu_.set(fault, false);
  }
  if (share_.once) {  // one run at a time is its owner's promise
    menu_.set(Fault::Overlap, false);
    menu_.set(Fault::RaisedTarget, false);
    menu_.fleet = 1;
  }
  const bool several =
      menu_.fleet > 1 || menu_.has(Fault::Overlap) || menu_.has(Fault::RaisedTarget);
  if (!several) return;
  // Agents that cannot ask how many there are must believe that there is one.
  for (const Fault fault :
       {Fault::MetadataBroken, Fault::MetadataSlow, Fault::Denied, Fault::DryRun}) {
    menu_.set(fault, false);
  }
}

// --- the server ---

void Simulation::silence(Duration lasts) {
  say("share", "its server is silent");
  needs_person_ = true;
  if (!is_silent()) share_.silent_since = now_;
  share_.silent_until = std::max(share_.silent_until, now_ + lasts);
  at_time(share_.silent_until, [this] {
    if (!is_silent() && share_.silent_since != decide::kNever) speak();
  });
}

// Calls that waited in the kernel go on, or end; those that had been sent are carried out.
void Simulation::speak() {
  say("share", "its server answers");
  share_.silent_since = decide::kNever;
  share_.silent_until = now_;
  for (const Share::Late& late : std::exchange(share_.late, {})) {
    Host& host = hosts_[late.instance];
    const bool there = host.alive && host.boot == late.boot && chance(0.5);
    if (!there) continue;
    say(late.instance.view(), "      late: ", name(late.command));
    (void)work(host, late.command);
  }
}

void Simulation::inject_share_fault(Fault fault) {
  const bool briefly = luck_.below(3) != 0;
  if (fault == Fault::ShareSilent) {
    return silence(luck_.within({seconds(1), briefly ? minutes(1) : minutes(80)}));
  }
  if (fault == Fault::ShareDenied) {
    say("user", "takes away the permission to write");
    needs_person_ = true;
    share_.denied_until = now_ + luck_.within({seconds(10), minutes(80)});
    return;
  }
  if (fault == Fault::ShareHeldOff) {
    silence(luck_.within({seconds(10), minutes(4)}));
    at(luck_.up_to(seconds(40)), [this] {
      if (Host* host = any_host()) {
        interrupt(*host, InterruptionAction::Terminate, seconds(120), "NOTICE: 120 s");
      }
    });
    return;
  }
  say("share", "its server dies");
  silence(luck_.within({seconds(1), minutes(2)}));
  for (auto& [id, host] : hosts_) {
    if (!host.alive || host.mounted != kShare || share_.folder) continue;
    const bool stale = luck_.below(2) == 0 && !host.trainer.hung;
    host.shut_down =
        host.shut_down || stale;  // until it is mounted again; who syncs gets the error
  }
}

void Simulation::mend_share() {
  menu_.fleet = 1;
  const world::FleetRequest* fleet = world_.cloud().fleets.find(fleet_.id);
  if (fleet && fleet->target > 1) raise_target(1);
  disks_[kShare].full = false;
  share_.denied_until = now_;
  if (share_.silent_since != decide::kNever) speak();
}

// --- an agent's work on it ---

// Counts the other machines of the fleet that may write to it, as far as EC2 shows
// (agent/service/act/fleet.cpp).
void Simulation::count_writers(const world::Instance& self, const world::FleetRequest& fleet,
                               decide::FleetRead& read) {
  read.target = static_cast<std::uint32_t>(fleet.target);
  for (const world::Instance& other : world_.instances(now_).list()) {
    const bool gone = other.state == world::InstanceState::Terminated ||
                      other.state == world::InstanceState::Stopped;
    const bool earlier = std::tie(other.launched, other.id) < std::tie(self.launched, self.id);
    if (gone || other.id == self.id || !earlier) continue;
    const Fleet shown = world::fleet_shown(other);
    read.earlier += shown.id == fleet.fleet.id;
    read.untagged += shown.kind == FleetKind::None;
  }
}

bool Simulation::knows_silence(const Host& host) const {
  return is_silent() && now_ - std::max(share_.silent_since, host.agent.started) > kSilenceKnown;
}

void Simulation::begin_on_share(Host& host) {
  Agent& agent = host.agent;
  const decide::Effect& effect = *agent.working;
  if (std::holds_alternative<decide::ReleaseShare>(effect.what)) agent.released = true;
  agent.work_ends = std::max(effect.deadline, now_ + milliseconds(1));
  Duration lasts = takes(host, effect.what);
  const bool asks = std::holds_alternative<decide::LookAtHost>(effect.what) &&
                    host.trainer.state == Trainer::State::Ended && host.trainer.ended.success;
  if (asks && is_silent()) lasts += agent.work_ends - now_;  // is its result there?
  const bool keeps_log = std::holds_alternative<decide::ReleaseShare>(effect.what) ||
                         std::holds_alternative<decide::StartTrainer>(effect.what);
  if (is_silent() && !knows_silence(host) && keeps_log) lasts += (agent.work_ends - now_) / 3;
  if (touches_server(effect.what) && knows_silence(host)) agent.work_ends = Time{};
  at(lasts, [this, id = host.id, run = agent.run, number = agent.work] {
    go_on_with_work(id, run, number);
  });
}

// It waits for a silent server up to its deadline; then its child is killed.
void Simulation::go_on_with_work(const InstanceId& id, std::uint64_t run, std::uint64_t number) {
  Host* its = agent_of(id, run);
  if (!its || !its->agent.working || its->agent.work != number) return;
  const decide::Command asked = its->agent.working->what;
  const Time ends = its->agent.work_ends;
  const bool waits = touches_server(asked) && is_silent();
  Happening outcome;
  if (ends == Time{}) {
    outcome = failure(Failure::ShareSilent, "the share does not answer");
  } else if (waits && now_ < ends + kStuckChild) {
    const Time next = std::min(share_.silent_until, now_ < ends ? ends : ends + kStuckChild);
    return at_time(next, [this, id, run, number] { go_on_with_work(id, run, number); });
  } else if (touches_server(asked) && now_ > ends) {
    lose_work(*its);
    outcome = failure(Failure::Unavailable, "it took too long", true);
  } else {
    outcome = work(*its, asked);
  }
  if (survives(*its, Side::AfterEffect, name(asked))) end_work(*its, outcome);
}

// A child that waits in the kernel for the server, and is killed there.
bool Simulation::is_left_waiting(Host& host, const decide::Command& command) {
  if (!on_share() || !is_silent() || !touches_server(command)) return false;
  const bool changes = std::holds_alternative<decide::WriteLedger>(command) ||
                       std::holds_alternative<decide::MarkDone>(command);
  if (changes) share_.late.push_back({host.id, host.boot, command});
  const bool mounts = std::holds_alternative<decide::PrepareShare>(command);
  if (mounts && chance(0.5)) mount_share(host);
  return true;
}

void Simulation::mount_share(Host& host) {
  host.mounted = kShare;
  host.shut_down = host.agent.released = false;
}

Happening Simulation::prepare_share(Host& host) {
  mount_share(host);
  if (is_denied()) return failure(Failure::MountFailed, "permission denied");
  if (disks_[kShare].full) return failure(Failure::MountFailed, "no space left on device");
  judge_write(host, "the job's folder");
  return decide::Mounted{};
}

Happening Simulation::release_share(Host& host) {
  forget_end(host);
  Trainer& trainer = host.trainer;
  judge_release(host);
  if (share_.folder) return decide::Unmounted{};
  trainer.result_unsynced = false;
  host.mounted = {};
  host.shut_down = false;
  // Sshfs cuts the connection; on NFS it waits on.
  if (trainer.stuck && chance(0.5)) {
    at(milliseconds(100), [this, id = host.id, run = trainer.run] {
      if (Host* its = trainer_of(id, run)) end_stuck(*its);
    });
  }
  return decide::Unmounted{};
}

Happening Simulation::mark_done(Host& host) {
  if (is_denied() || host.shut_down) return failure(Failure::MountFailed, "permission denied");
  judge_write(host, "the mark");
  if (!disks_[kShare].result) broken("the job is marked as done, and there is no result");
  share_.marked = true;
  return decide::CallAccepted{};
}

// --- its trainer ---

// The write of a checkpoint waits for the server. True: it goes on later, or never.
bool Simulation::waits_in_kernel(Host& host, std::function<void()> again) {
  if (!on_share() || !is_silent() || host.shut_down) return false;
  if (!std::exchange(host.trainer.stuck, true)) {
    say(host.id.view(), "trainer waits for the server");
  }
  at_time(share_.silent_until, std::move(again));
  return true;
}

// The kernel releases a trainer that was killed meanwhile, or asked to end and takes the signal's
// default. Its last write may be there, though nobody got that answer.
bool Simulation::ends_in_kernel(Host& host) {
  Trainer& trainer = host.trainer;
  if (!std::exchange(trainer.stuck, false)) return false;
  if (trainer.killed && chance(0.3)) {
    disks_[kShare].checkpoints.push_back({trainer.step, false});
    trainer.writing = false;
  }
  const bool by_signal = trainer.stopping && !work_.aware;
  if (!trainer.killed && !by_signal) return false;
  trainer_dies(host);
  end_trainer(host, false, by_signal && !trainer.killed);
  return true;
}

void Simulation::end_stuck(Host& host) {
  host.trainer.stuck = false;
  host.trainer.writing = false;
  end_trainer(host, false, false);
}

// The agent that follows cannot read the ledger before the trainer has finished.
void Simulation::lose_touch(Host& host) {
  if (!now(Fault::ShareUnread) || !fires(0.5)) return;
  silence(between(seconds(30), seconds(60)));
  kill_agent(host);
  restart_later(host);
}

// Whether the result is there is asked of the server (agent.cpp: confirm_result).
void Simulation::confirm_result(Host& host, Time since) {
  const bool patient = now_ - since < policy_.look && !knows_silence(host);
  if (is_silent() && patient) {
    const Time next = std::min(share_.silent_until, since + policy_.look);
    return at_time(next, [this, id = host.id, run = host.agent.run, since] {
      if (Host* its = agent_of(id, run)) confirm_result(*its, since);
    });
  }
  ends_in_vain_ += is_silent();
  sense(host, decide::TrainerEnded{!is_silent(), false});
}

// --- who owns a run ---

// Acts like a scheduler: an interrupted run begins again, where it was if that machine is left; a
// failed one does not.
void Simulation::run_ended(Host& host) {
  const decide::Facts& facts = host.agent.state.facts;
  if (facts.exit.done || facts.exit.surrender != decide::Surrender::None) {
    judge_run(host);
    share_.over = true;
    say("owner", facts.exit.done ? "the run has finished" : "the run has failed");
    if (!facts.exit.done) return end_run();
    (void)world_.fleets(now_).cancel({fleet_.id}, fleet_.kind, true);
    return;
  }
  // It says so by its exit status: the next attempt is on another machine.
  if (facts.exit.unfit && is_left(host)) return (void)world_.kill(host.id, now_);
  run_again(host.id, host.boot);
}

// Seed 2537802235, in a bucket: a refused request was not made again, and machines without a run
// were paid for ever.
void Simulation::end_run() {
  if (share_.over && !raise_target(0)) at(seconds(10), [this] { end_run(); });
}

void Simulation::run_again(const InstanceId& id, std::uint64_t boot) {
  at(between(seconds(5), seconds(30)), [this, id, boot] {
    Host& its = hosts_[id];
    if (!its.alive || its.boot != boot || its.agent.alive || share_.over) return;
    const world::Instance* instance = world_.cloud().instances.find(id);
    if (instance->state != world::InstanceState::Running) return;
    const bool goes = instance->notice && instance->notice->deadline > now_;
    if (goes) return run_again(id, boot);  // not there
    start_agent(id);
  });
}

}  // namespace spotter::simulate
