// Blows at counted points, and faults that have numbers: what makes a life repeatable with one
// thing changed (story.hpp).
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;

// Do the dice make this call or work fail?
bool Simulation::fires(double share) {
  if (share <= 0 || now_ >= calm_) return false;
  if (static_cast<double>(dice_.below(1'000'000)) >= share * 1e6) return false;
  return is_allowed(kFirstSingleFault + single_faults_++, "FAULT");
}

bool Simulation::is_allowed(std::uint64_t number, const char* word) {
  fired_.push_back(number);
  if (!choice_.allows(number)) return false;
  say("chance", word, " ", number);
  return true;
}

// Counts a point, and carries out what the script says of it. False: the agent that stood there is
// no more, and nothing may be done in its name.
bool Simulation::lives_on(Host& host, Side side, std::string_view name) {
  ++verdict_.points;
  if (!script_) return true;
  const std::uint64_t run = host.agent.run;
  for (Blow& it : script_->blows) {
    const bool named = it.point == 0 && it.times > 0 && it.side == side && it.name == name;
    if (it.point == verdict_.points || (named && --it.times == 0)) blow(host, it.kind);
  }
  return host.alive && host.agent.alive && host.agent.run == run;
}

void Simulation::blow(Host& host, Blow::Kind kind) {
  ++verdict_.blows;
  const auto interrupt = [&](Duration lead, const char* words) {
    say(host.id.str(), words);
    (void)world_.interrupt(host.id, InterruptionAction::Terminate, lead, now_);
    look_at_metadata(host, seconds(1));
  };
  switch (kind) {
    case Blow::Kind::KillInstance:
      say(host.id.str(), "KILLED");
      (void)world_.kill(host.id, now_);
      return drain();
    case Blow::Kind::KillAgent:
      kill_agent(host);
      return restart_later(host);
    case Blow::Kind::Notice:
      return interrupt(minutes(2), "NOTICE: 120 s");
    case Blow::Kind::ShortNotice:
      return interrupt(seconds(5), "NOTICE: 5 s");
    case Blow::Kind::LoseAnswer:
      lose_answer_ = true;
      return say(host.id.str(), "ANSWER LOST");
    case Blow::Kind::Overlap:
      say("user", "the fleet's target is two");
      (void)world_.fleets(now_).modify({fleet_.id, 2, {}}, fleet_.kind);
      return;
    case Blow::Kind::CrashTrainer:
      if (host.trainer.life != Trainer::Life::Running) return;
      say(host.id.str(), "TRAINER CRASHES");
      at(Duration{0}, [this, id = host.id, run = host.trainer.run] {
        if (Host* its = trainer_of(id, run)) end_trainer(*its, false, false);
      });
      return;
    case Blow::Kind::ShareSilent:
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
