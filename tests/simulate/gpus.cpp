// Machines that lack GPUs: from boot, for ever, or since one fell off the bus under the trainer.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;

// Drawn from a sequence of their own: runs without GPUs stay the same for each seed.
void Simulation::choose_gpus() {
  if (bus_.below(4) != 0) return;
  policy_.gpus = 1 << bus_.below(4);
  menu_.set(Fault::GpusAbsent, bus_.below(2) == 0);
  menu_.set(Fault::GpuLost, bus_.below(2) == 0);
  menu_.set(Fault::GpusNever, bus_.below(12) == 0);
  if (!menu_.has(Fault::GpusNever)) return;
  constexpr GiveUp policies[] = {GiveUp::ScaleToZero, GiveUp::Hold, GiveUp::Cancel};
  policy_.then = policies[bus_.below(std::size(policies))];
  policy_.attempts_without_progress = 2 + static_cast<std::uint32_t>(bus_.below(4));
}

void Simulation::boot_gpus(Host& host) {
  if (policy_.gpus == 0) return;
  const bool unlucky = now(Fault::GpusAbsent) && bus_.below(3) == 0;
  const bool scripted = script_ && verdict_.instances < script_->lacking;
  host.lacks_gpus = unlucky || scripted || menu_.has(Fault::GpusNever);
  if (!host.lacks_gpus) return;
  say(host.id.view(), "has too few GPUs");
  if (scripted || now_ >= calm_ || bus_.below(6) != 0) return;
  needs_person_ = true;
  say("user", "nobody may TerminateInstances");
  inject_in_world("deny", {{"action", "TerminateInstances"}, {"code", "UnauthorizedOperation"}});
  at(bus_.within({seconds(20), minutes(80)}), [this] {
    inject_in_world("deny", {{"action", "TerminateInstances"}, {"on", "false"}});
  });
}

// The trainer fails of it; only a machine that boots again has it back.
void Simulation::lose_gpu(Host& host) {
  if (policy_.gpus == 0 || host.lacks_gpus) return;
  say(host.id.view(), "a GPU has fallen off the bus");
  host.lacks_gpus = true;
  if (host.trainer.state != Trainer::State::Running || host.trainer.stuck) return;
  trainer_dies(host);
  end_trainer(host, false, false);
}

decide::Happening Simulation::await_gpus(Host& host) {
  host.saw_gpus = !host.lacks_gpus;
  if (host.saw_gpus) return decide::GpusFound{};
  ++ends_in_vain_;
  decide::EffectFailed failed;
  failed.failure = decide::Failure::GpusAbsent;
  failed.detail = "too few GPUs answer";
  return failed;
}

// Only a machine that is of no use, and nothing of the job goes down with it.
void Simulation::judge_give_back(const InstanceId& caller) {
  Host& host = hosts_[caller];
  const decide::Facts::Exit& exit = host.agent.state.facts.exit;
  if (exit.done || exit.surrender != decide::Surrender::None) return;  // it may not end its fleet
  // Each is one of the attempts, and after the last the job is given up.
  if (!std::exchange(host.given_back, true)) ++given_back_;
  if (given_back_ >= policy_.attempts_without_progress)
    broken("it costs without progress: machine after machine is given back");
  const bool refuses = is_left(host) && host.refused_since != decide::kNever &&
                       now_ - host.refused_since >= policy_.left_limit;
  if (!host.lacks_gpus && !refuses) broken("a machine is given back that could train");
  const Trainer& trainer = host.trainer;
  if (trainer.state == Trainer::State::Running && !trainer.killed)
    broken("a machine is given back that trains");
  if (on_volume() && host.mounted && !is_left(host))
    broken("a machine is given back with the volume mounted");
  if (share_.once) broken("somebody else's machine is given back");
}

}  // namespace spotter::simulate
