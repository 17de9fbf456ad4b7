// Judges an agent's requests to EC2, whatever it believes, by what is true in the world.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

void Simulation::judge_call(const InstanceId& caller, const decide::Command& command, bool asked) {
  judge_others(command);
  if (const auto* it = std::get_if<decide::DetachVolume>(&command)) {
    judge_detach(caller, *it, asked);
  }
  if (const auto* it = std::get_if<decide::PromoteVolume>(&command)) judge_promotion(it->volume);
  if (const auto* it = std::get_if<decide::MarkVerified>(&command)) {
    if (hosts_[caller].looked_into != it->volume) broken("a copy is verified by nobody's look");
  }
  if (const auto* it = std::get_if<decide::DeleteVolume>(&command)) {
    if (strays_.count(it->volume)) broken("a user's volume is deleted");
  }
}

// Never a mounted volume, and another's only when that one is known to be stopped: as far as
// anybody can see, for EC2 may show an instance as stopped for a while after it was started again.
void Simulation::judge_detach(const InstanceId& caller, const decide::DetachVolume& command,
                              bool asked) {
  if (!command.instance) return broken("a volume is taken from whoever has it");
  const Host& holder = hosts_[command.instance];
  // A call decided on an old picture is sent within the time of two calls. EC2 then waits for the
  // unmount (`busy`), for nothing is forced.
  const Duration unseen = policy_.consistency_bound + 2 * policy_.ec2_call;
  const bool seen_alive = now_ - holder.booted > unseen;
  // The next agent cannot know of a killed agent's call that EC2 received late.
  const bool known = command.instance == caller ? asked : seen_alive;
  if (holder.alive && holder.mounted == command.volume && known) {
    broken("the detach of a mounted volume is asked for");
  }
  if (holder.alive && seen_alive && command.instance != caller) {
    broken("a volume is taken from an instance that runs");
  }
}

void Simulation::judge_promotion(const VolumeId& candidate) {
  const world::Volume* volume = world_.cloud().volumes.find(candidate);
  if (!volume) return;
  const auto role = volume->tags.find("spotter:role");
  if (role != volume->tags.end() && role->second == "candidate") {
    broken("a copy that nobody verified becomes the job's volume");
  }
  if (policy_.fence) {
    const decide::Epoch* epoch = epoch_of(candidate);
    if (epoch && epoch->volume != candidate) broken("a copy that was not committed is promoted");
    return;
  }
  world_.cloud().volumes.each([&](const world::Volume& other) {
    const auto found = other.tags.find(kDiscoveryKey);
    const bool current = other.state != world::VolumeState::Deleted && found != other.tags.end() &&
                         found->second == kDiscoveryValue && !is_aside(other.id) &&
                         other.id != candidate;
    if (current) broken("a copy becomes the job's volume while another is");
  });
}

// The same request makes the same volume, however often it is sent: what was lost with an answer is
// found again (ClientToken).
void Simulation::judge_copy(const decide::CreateVolume& command, const VolumeId& made) {
  const std::string request =
      command.snapshot.str() + " " + command.zone.str() + " " + std::to_string(command.attempt);
  const auto [it, fresh] = copies_.emplace(request, made);
  if (!fresh && it->second != made) broken("one request makes two copies");
}

}  // namespace spotter::simulate
