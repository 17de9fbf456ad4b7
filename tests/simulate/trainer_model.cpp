// A trainer: steps, checkpoints, an end; and what a kill leaves of a checkpoint half written.
#include <utility>

#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::milliseconds;
using std::chrono::seconds;

Host* Simulation::trainer_of(const InstanceId& id, std::uint64_t run) {
  Host& host = hosts_[id];
  const Trainer& trainer = host.trainer;
  const bool runs = host.alive && trainer.state == Trainer::State::Running && trainer.run == run;
  return runs ? &host : nullptr;
}

void Simulation::tick(const InstanceId& id, std::uint64_t run) {
  Host* host = trainer_of(id, run);
  if (!host || host->trainer.stopping || host->trainer.hung) return;
  if (now_ < host->paused_until)
    return at_time(host->paused_until, [this, id, run] { tick(id, run); });
  const std::int64_t step = ++host->trainer.step;
  if (!work_.mute) sense(*host, decide::TrainerProgressed{step});
  if (work_.doomed || (menu_.has(Fault::Crashes) && fires(0.01))) {
    say(id.view(), "trainer crashes");
    return end_trainer(*host, false, false);
  }
  if (menu_.has(Fault::NoResult) && fires(0.003)) {
    say(id.view(), "trainer exits 0, without a result");
    return end_trainer(*host, false, false);
  }
  if (step + 3 == work_.steps) lose_touch(*host);
  if (step >= work_.steps) {
    finish_in_a_notice(*host);
    return write_checkpoint(*host, [this](Host& its) {
      judge_write(its, "the result");
      its.trainer.result_unsynced = true;
      say(its.id.view(), "trainer has finished");
      end_trainer(its, true, false);
    });
  }
  const auto go_on = [this, id, run] { at(work_.step_takes, [this, id, run] { tick(id, run); }); };
  if (step % work_.checkpoint_every == 0 || host->trainer.wanted) {
    host->trainer.wanted = false;
    return write_checkpoint(*host, [this, go_on](Host& its) {
      // Asked to stop while the kernel held it: the checkpoint that it was writing is its last.
      its.trainer.stopping ? end_trainer(its, false, true) : go_on();
    });
  }
  go_on();
}

void Simulation::write_checkpoint(Host& host, std::function<void(Host&)> then) {
  host.trainer.writing = true;
  host.trainer.write = ++numbers_;
  const Duration took = between(milliseconds(100), seconds(6));
  at(took, [this, write = Write{host.id, host.trainer.run, host.trainer.write, host.trainer.step,
                                took, std::move(then)}] { end_write(write); });
}

void Simulation::end_write(const Write& write) {
  Host* its = trainer_of(write.host, write.run);
  const bool goes_on = its && its->trainer.writing && its->trainer.write == write.number;
  if (!goes_on || (its->trainer.hung && !its->trainer.stuck)) return;
  if (now_ < its->paused_until)
    return at_time(its->paused_until, [this, write] { end_write(write); });
  if (waits_in_kernel(*its, [this, write] { end_write(write); })) return;
  if (ends_in_kernel(*its) || its->trainer.hung) return;
  its->trainer.writing = false;
  judge_write(*its, "a checkpoint");
  Disk& disk = disks_[its->trainer.volume];
  if (disk.full || its->shut_down || is_denied()) {
    say(its->id.view(), "trainer cannot write its checkpoint");
    return end_trainer(*its, false, false);
  }
  const std::uint64_t number = bucket_.before.size();
  bucket_.before.push_back(std::exchange(its->trainer.base, number));
  // One of the same step has the same name: asked to stop before its next step, it saves once more.
  std::erase_if(disk.checkpoints, [&](const auto& it) { return it.step == write.step; });
  disk.checkpoints.push_back({write.step, false, number});
  while (disk.checkpoints.size() > 3) disk.checkpoints.erase(disk.checkpoints.begin());
  if (write.step > durable_ && !in_bucket()) {  // there what is committed counts
    durable_ = write.step;
    starts_in_vain_ = starts_counted_ = ends_in_vain_ = 0;
  }
  say(its->id.view(), "trainer: step ", write.step, " is durable");
  if (!work_.mute) {
    sense(*its, decide::CheckpointMade{write.step, work_.aware ? write.took : Duration(0)});
  }
  if (trainer_of(write.host, write.run)) write.then(*its);
}

void Simulation::pace_trainer(Host& host, const decide::PaceTrainer& advice) {
  if (work_.aware && advice.asked != decide::kNever) host.trainer.wanted = true;
}

void Simulation::stop_trainer(Host& host, const decide::StopTrainer& why) {
  Trainer& trainer = host.trainer;
  trainer.asked = true;
  if (why.signalled) return;
  if (trainer.state != Trainer::State::Running || trainer.stopping) return;
  if (trainer.hung || (menu_.has(Fault::Deaf) && fires(0.3))) return;
  take_signal(host);
}

// The supervisor records who it was, so that the end counts as asked for, and the trainer starts
// again.
void Simulation::stop_by_others(Host& host) {
  const Trainer& trainer = host.trainer;
  if (trainer.state != Trainer::State::Running || trainer.stopping || trainer.hung) return;
  say(host.id.view(), "OTHERS STOP THE TRAINER");
  take_signal(host);
}

void Simulation::take_signal(Host& host) {
  const Trainer& trainer = host.trainer;
  at(between(milliseconds(50), work_.aware ? work_.step_takes : seconds(1)),
     [this, id = host.id, run = trainer.run] {
       Host* its = trainer_of(id, run);
       if (!its || its->trainer.stopping || its->trainer.hung) return;
       its->trainer.stopping = true;
       if (its->trainer.stuck) return;  // it takes the signal when the kernel releases it
       if (!work_.aware) {
         trainer_dies(*its);
         return end_trainer(*its, false, true);
       }
       its->trainer.writing = false;
       write_checkpoint(*its, [this](Host& host_now) { end_trainer(host_now, false, true); });
     });
}

// A checkpoint being written is torn (its trainer does not know how to write atomically).
void Simulation::trainer_dies(Host& host) {
  Trainer& trainer = host.trainer;
  if (trainer.writing && chance(0.5)) {
    disks_[trainer.volume].checkpoints.push_back({trainer.step, true});
  }
  trainer.writing = false;
  if (!host.alive) trainer.state = Trainer::State::None;
}

void Simulation::end_trainer(Host& host, bool success, bool as_asked) {
  Trainer& trainer = host.trainer;
  trainer.state = Trainer::State::Ended;
  trainer.writing = false;
  trainer.ended = {success, as_asked};
  ends_in_vain_ += !success && !as_asked;
  leave_processes(host);
  say(host.id.view(), success ? "trainer ends well" : "trainer ends");
  if (!host.agent.alive || !host.agent.watches_trainer) return;
  host.agent.watches_trainer = false;
  at(milliseconds(10), [this, id = host.id, run = host.agent.run, ended = trainer.ended] {
    Host* its = agent_of(id, run);
    if (its && on_share() && ended.success) return confirm_result(*its, now_);
    if (its) sense(*its, ended);
  });
}

}  // namespace spotter::simulate
