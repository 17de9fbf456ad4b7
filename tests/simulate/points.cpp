// Faults at counted points, and faults that have numbers: what makes a run repeatable with one
// thing changed (story.hpp).
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;

// Does the seed make this call or work fail?
bool Simulation::fires(double share) {
  if (share <= 0 || now_ >= calm_) return false;
  if (static_cast<double>(dice_.below(1'000'000)) >= share * 1e6) return false;
  return is_allowed(kFirstSingleFault + single_faults_++);
}

bool Simulation::is_allowed(std::uint64_t number) {
  fired_.push_back(number);
  if (!choice_.allows(number)) return false;
  say("chance", "FAULT ", number);
  return true;
}

// Counts a point, and injects the faults that the script has for it. False: the agent was killed at
// the point, and none of its effects is carried out.
bool Simulation::survives(Host& host, Side side, std::string_view name) {
  ++verdict_.points;
  if (!script_) return true;
  const std::uint64_t run = host.agent.run;
  for (ScriptedFault& it : script_->faults) {
    const bool named = it.point == 0 && it.times > 0 && it.side == side && it.name == name;
    if (it.point == verdict_.points || (named && --it.times == 0)) inject(host, it.kind);
  }
  return host.alive && host.agent.alive && host.agent.run == run;
}

void Simulation::inject(Host& host, ScriptedFault::Kind kind) {
  ++verdict_.faults;
  const auto interrupt = [&](Duration lead, const char* words) {
    say(host.id.str(), words);
    (void)world_.interrupt(host.id, InterruptionAction::Terminate, lead, now_);
    look_at_metadata(host, seconds(1));
  };
  switch (kind) {
    case ScriptedFault::Kind::KillInstance:
      say(host.id.str(), "KILLED");
      (void)world_.kill(host.id, now_);
      return drain();
    case ScriptedFault::Kind::KillAgent:
      kill_agent(host);
      return restart_later(host);
    case ScriptedFault::Kind::Notice:
      return interrupt(minutes(2), "NOTICE: 120 s");
    case ScriptedFault::Kind::ShortNotice:
      return interrupt(seconds(5), "NOTICE: 5 s");
    case ScriptedFault::Kind::LoseAnswer:
      lose_answer_ = true;
      return say(host.id.str(), "ANSWER LOST");
    case ScriptedFault::Kind::Overlap:
      say("user", "the fleet's target is two");
      (void)world_.fleets(now_).modify({fleet_.id, 2, {}}, fleet_.kind);
      return;
    case ScriptedFault::Kind::CrashTrainer:
      if (host.trainer.state != Trainer::State::Running) return;
      say(host.id.str(), "TRAINER CRASHES");
      at(Duration{0}, [this, id = host.id, run = host.trainer.run] {
        if (Host* its = trainer_of(id, run)) end_trainer(*its, false, false);
      });
      return;
    case ScriptedFault::Kind::OthersStop:
      return stop_by_others(host);
    case ScriptedFault::Kind::ShareSilent:
      silence(script_->silence);
  }
}

// systemd starts it again.
void Simulation::restart_later(Host& host) {
  at(between(seconds(1), seconds(10)), [this, id = host.id, boot = host.boot] {
    Host& its = hosts_[id];
    if (its.alive && its.boot == boot && !its.agent.alive) start_agent(id);
  });
}

// A story in which each replacement comes up in the other zone.
void Simulation::move_capacity(const Zone& from) {
  if (!script_ || script_->replacement != Script::Replacement::OtherZone) return;
  for (const Zone& zone : world_.settings().zones) {
    world_.set_capacity(zone, zone == from ? std::optional<int>(0) : std::nullopt, now_);
  }
}

}  // namespace spotter::simulate
