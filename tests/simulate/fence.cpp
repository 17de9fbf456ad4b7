// A fence: the job's epoch as an object in S3. Each write is shown at once, and none is taken that
// did not see the one before; but a request may be refused, late, or carried out long after its
// asker has given it up or is dead.
#include <algorithm>

#include "agent/decide/describe.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using decide::EffectFailed;
using decide::Failure;
using decide::Happening;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Drawn from a sequence of their own. A volume that a person deletes is a person's to replace,
// together with the fence's object: that is no run of an agent.
void Simulation::choose_fence() {
  policy_.fence = choice_.fence && on_volume();
  if (!policy_.fence && !in_bucket()) return;
  menu_.set(Fault::VolumeDeleted, false);
  constexpr double rates[] = {0, 0.05, 0.2, 0.5};
  fence_.fails = rates[fence_dice_.below(std::size(rates))];
  for (std::uint64_t outages = fence_dice_.below(4); outages > 0; --outages) {
    const Time from = now_ + fence_dice_.within({seconds(0), minutes(60)});
    const bool brief = fence_dice_.below(2) == 0;
    fence_.outages.push_back(
        {from, from + fence_dice_.within({seconds(5), minutes(brief ? 1 : 20)})});
  }
}

bool Simulation::is_fence_silent() const {
  return now_ < calm_ &&
         std::any_of(fence_.outages.begin(), fence_.outages.end(),
                     [this](auto& it) { return now_ >= it.first && now_ < it.second; });
}

// True: this request to S3 fails, by an outage or by chance.
bool Simulation::fence_fails() {
  if (is_fence_silent()) return true;
  if (now_ >= calm_ || fence_.fails <= 0) return false;
  if (static_cast<double>(fence_dice_.below(1'000'000)) >= fence_.fails * 1e6) return false;
  return is_allowed(kFirstSingleFault + single_faults_++);
}

Happening Simulation::put_epoch(const decide::Epoch& epoch) {
  decide::Epoch& there = fence_.epochs[epoch.line];
  const bool next = there.number + 1 == epoch.number;
  if (!next) return failure(Failure::Conflict, "PreconditionFailed");
  judge_epoch(there, epoch);
  there = epoch;
  return decide::EpochWritten{};
}

// Unlike a call to EC2 it may be carried out when its instance is gone: S3 has it already.
void Simulation::write_epoch(Host& host, const decide::Effect& effect) {
  const auto& write = std::get<decide::WriteEpoch>(effect.what);
  const bool fails = fence_fails();
  const std::uint64_t how = fails ? fence_dice_.below(is_fence_silent() ? 1 : 3) : 3;
  const Duration limit = effect.deadline - now_;
  if (how == 0) {  // refused, or never sent
    return answer_later(host, effect.id, std::min<Duration>(limit, milliseconds(800)),
                        failure(Failure::Unavailable, "SlowDown"));
  }
  const bool answered = how == 3;
  const Duration there = answered
                             ? between(milliseconds(20), milliseconds(300))
                             : fence_dice_.within({milliseconds(20), seconds(how == 1 ? 9 : 40)});
  if (!answered) {
    answer_later(host, effect.id, limit, failure(Failure::Unavailable, "timed out", true));
  }
  at(there, [this, id = host.id, run = host.agent.run, epoch = write.epoch, effect, answered] {
    const Happening outcome = put_epoch(epoch);
    const bool taken = std::holds_alternative<decide::EpochWritten>(outcome);
    say(id.view(), "      S3: epoch ", epoch.number, taken ? " written" : " refused",
        answered ? "" : ", the answer is lost");
    Host* asker = agent_of(id, run);
    if (!answered || !asker || !survives(*asker, Side::AfterEffect, name(effect.what))) return;
    if (std::exchange(lose_answer_, false)) {
      const Duration left = std::max(Duration{0}, effect.deadline - now_);
      return answer_later(*asker, effect.id, left,
                          failure(Failure::Unavailable, "timed out", true));
    }
    answer_later(*asker, effect.id, between(milliseconds(20), milliseconds(200)), outcome);
  });
}

// Shows the holder as a look at EC2 does: terminated is final, all else may be old.
void Simulation::read_epoch(decide::Survey& picture, const VolumeId& known) {
  const VolumeId line = picture.epoch_line = decide::line_in(picture, known);
  const auto found = fence_.epochs.find(line);
  if (!line || found == fence_.epochs.end()) return;
  picture.epoch = found->second;
  const world::Instance* its = world_.instances(now_).seen(picture.epoch.holder);
  picture.epoch_holder = !its ? decide::HolderState::Unknown : state_of(picture.epoch.holder);
}

const decide::Epoch* Simulation::epoch_of(const VolumeId& volume) const {
  for (const auto& [line, epoch] : fence_.epochs) {
    if (epoch.volume == volume || epoch.left == volume) return &epoch;
  }
  return nullptr;
}

// A machine that can still write to the volume keeps the epoch.
void Simulation::judge_epoch(const decide::Epoch& before, const decide::Epoch& after) {
  if (before.number == 0 || before.holder == after.holder) return;
  if (before.state == decide::Epoch::State::Released) return;
  const Host& holder = hosts_[before.holder];
  if (holder.alive && holder.mounted == before.volume && !holder.read_only) {
    broken("the epoch is taken from an instance that uses the volume");
  }
}

void Simulation::judge_fenced_write(const Host& host, const char* what) {
  const decide::Epoch* epoch = epoch_of(host.mounted);
  const bool ours = epoch && epoch->volume == host.mounted && epoch->holder == host.id &&
                    epoch->state != decide::Epoch::State::Released &&
                    epoch->state != decide::Epoch::State::Moving;
  if (!ours) broken(std::string(what) + " is written to a volume that the epoch gives to another");
}

void Simulation::judge_fenced_removal(const VolumeId& removed) {
  const decide::Epoch* epoch = epoch_of(removed);
  if (epoch && epoch->volume == removed) broken("the epoch's volume is deleted");
  // A deleted volume that is back is deleted again as long as nobody could write that it was
  // deleted.
  const bool named = epoch && epoch->left == removed;
  if (past_.count(removed) && !named) broken("what a person has restored is deleted");
}

}  // namespace spotter::simulate
