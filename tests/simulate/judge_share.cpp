// The invariants of a job on a share, whatever its server does.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::milliseconds;
using std::chrono::seconds;

// One writer: a share takes what anybody writes. A trainer that was killed in the kernel does
// nothing more of its own.
void Simulation::judge_share_write(const Host& host, const char* what) {
  if (host.mounted != kShare) {
    return broken(std::string(what) + " is written to a share that is not mounted here");
  }
  for (const auto& [id, other] : hosts_) {
    const Trainer& trainer = other.trainer;
    const bool writes = other.alive && trainer.state == Trainer::State::Running && !trainer.killed;
    const bool hidden = is_target_hidden(host) && is_target_hidden(other);
    if (writes && id != host.id && !hidden) {
      broken(std::string(what) + " is written while another instance's trainer writes there");
    }
  }
}

// Nothing of EBS; and of a fleet nothing where its owner is another.
void Simulation::judge_on_share(const decide::Command& command) {
  using namespace decide;
  const bool of_fleet = std::holds_alternative<ReadFleet>(command) ||
                        std::holds_alternative<CancelFleet>(command) ||
                        std::holds_alternative<GiveBackInstance>(command) ||
                        std::holds_alternative<ScaleFleetToZero>(command);
  if (of_fleet && share_.once) broken("a run of somebody else's has to do with a fleet");
  const bool other =
      of_fleet || std::holds_alternative<LookAtHost>(command) ||
      std::holds_alternative<ReadIdentity>(command) ||
      std::holds_alternative<PrepareShare>(command) ||
      std::holds_alternative<ReleaseShare>(command) ||
      std::holds_alternative<ReadLedger>(command) || std::holds_alternative<WriteLedger>(command) ||
      std::holds_alternative<SyncStorage>(command) || std::holds_alternative<SendResult>(command) ||
      std::holds_alternative<VerifyCheckpoints>(command) ||
      std::holds_alternative<AwaitGpus>(command) || std::holds_alternative<FetchCode>(command) ||
      std::holds_alternative<StartTrainer>(command) ||
      std::holds_alternative<PaceTrainer>(command) ||
      std::holds_alternative<StopTrainer>(command) || std::holds_alternative<KillTrainer>(command);
  const auto* mark = std::get_if<MarkDone>(&command);
  if (!other && !(mark && mark->volume.empty())) broken("a job on a share asks for a volume");
}

// On a share: EC2 need not have shown the raised target, nor the other instances, when it booted.
// A share has no lock for one writer; a run of the simulator ends where that does harm.
bool Simulation::is_target_hidden(const Host& host) const {
  const Duration apart = host.booted - target_since_;
  return on_share() && target_since_ != kBegin && apart <= policy_.consistency_bound &&
         apart >= -policy_.consistency_bound;  // who runs for longer is shown
}

// A fleet that keeps more than one was refused, as far as that was to be seen when it began: who
// cannot ask for its fleet is believed to be alone.
void Simulation::judge_many(const Host& host) {
  const world::FleetRequest* fleet = world_.cloud().fleets.find(fleet_.id);
  const bool seen = host.booted - target_since_ > policy_.consistency_bound;
  const bool asked = host.agent.state.facts.identity.fleet_known;
  if (fleet->target > 1 && seen && asked)
    broken("a trainer is started though the fleet keeps several");
}

void Simulation::judge_release(const Host& host) {
  const Trainer& trainer = host.trainer;
  if (trainer.state == Trainer::State::Running && !trainer.killed) {
    broken("the share is taken from under a running trainer");
  }
}

// An agent that sees a notice in time acts in time, whatever hangs: its trainer was asked to stop,
// has ended or was killed, and the share is released.
void Simulation::expect_release(const Host& host, Time deadline) {
  if (!on_share() || deadline - now_ < seconds(60)) return;
  const auto number = host.agent.announced;
  const auto expect = [&](Time when, auto judge) {
    at_time(when, [this, id = host.id, run = host.agent.run, number, judge] {
      const Host* its = agent_of(id, run);
      if (its && its->agent.announced == number) judge(*its);
    });
  };
  // Looking around, and an account that is waited for a little.
  expect(now_ + policy_.ledger, [this](const Host& its) {
    const Trainer& trainer = its.trainer;
    const bool runs = trainer.state == Trainer::State::Running && !trainer.killed;
    if (runs && !trainer.asked) broken("a notice came, and the trainer gets nothing of it");
  });
  expect(deadline - milliseconds(1), [this](const Host& its) {
    const Trainer& trainer = its.trainer;
    if (trainer.state == Trainer::State::Running && !trainer.killed) {
      return broken("the deadline of a notice, and the trainer is not stopped");
    }
    const bool held = its.agent.state.facts.holding.mounted ||
                      (its.mounted && !share_.folder && !its.agent.released);
    if (held) broken("the deadline of a notice, and the share is held");
    if (share_.once) broken("a run outlives its notice");
  });
}

// Judges what `spotter run` says to its owner.
void Simulation::judge_run(const Host& host) {
  if (!host.agent.state.facts.exit.done) return judge_surrender(host.id);
  const bool there = in_bucket() ? is_result_there() : disks_[kShare].result;
  if (!there) broken("a run says that it is done, and there is no result");
}

}  // namespace spotter::simulate
