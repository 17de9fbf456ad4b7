// Spotter on a replayed market: the real core against the fake AWS, with the market's own boots,
// snapshots and trainer (libspotter's, whose training goes on while a checkpoint is written and
// until the last safe moment after a notice).
#include <algorithm>
#include <stdexcept>

#include "agent/host/cold.hpp"
#include "tests/simulate/market.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {
namespace {

using std::chrono::seconds;

Script quiet(bool fence) {
  Script script;
  script.fence = fence;
  script.replacement = Script::Replacement::AnyZone;
  return script;
}

class Replay : public Simulation {
 public:
  Replay(const Market& market, const MarketModel& model, std::uint64_t seed, bool fence);
  Outcome play();

 private:
  void begin(std::size_t index);
  void announce(std::size_t index);
  void end(std::size_t index);
  Host* ours();

  Duration boots() override { return of_seconds(market_.segments[current_].boot); }
  void before_snapshot(const VolumeId& volume) override;
  Duration takes(Host& host, const decide::Command& command) override;

  decide::Happening start_trainer(Host& host) override;
  void stop_trainer(Host& host, const decide::StopTrainer& why) override;
  void pace_trainer(Host& host, const decide::PaceTrainer& advice) override;
  void trainer_dies(Host& host) override;
  double position() const;
  void plan_checkpoint(Host& host, Duration later);
  void plan_finish(Host& host);
  void save(Host& host);
  void save_last(Host& host);
  void durable(Host& host, std::int64_t step);

  const Market& market_;
  const MarketModel& model_;
  std::size_t current_ = 0;
  // The one trainer: `reached_` at `since_`, and training from then on.
  double reached_ = 0;
  Time since_ = decide::kNever;
  Duration every_{0};
  bool saving_ = false;
  std::uint64_t plan_ = 0;  // tells a checkpoint that is still to come from one that was put off
  double furthest_ = 0;
  double repeated_ = 0;
  std::map<VolumeId, bool> loaded_;
};

Replay::Replay(const Market& market, const MarketModel& model, std::uint64_t seed, bool fence)
    : Simulation(seed, false, quiet(fence)), market_(market), model_(model) {
  world::Settings& settings = world_.settings();
  settings.zones.resize(model.zones, "us-west-2c");
  settings.boot = settings.capacity_lost = {};
  settings.fleet_reaction = settings.replacement =
      settings.capacity_retry = {seconds(1), seconds(1)};
  for (const Zone& zone : settings.zones) world_.set_capacity(zone, 0, now_);
  settings.cold = model.cold;
  gibibytes_ = model.gibibytes();
  work_.steps = static_cast<std::int64_t>(model.work);
  calm_ = now_;
  limit_ = now_ + of_seconds(market.segments.back().end);
  const Duration lead = seconds(30);  // the user's volume is there before the first instance
  for (std::size_t i = 0; i < market.segments.size(); ++i) {
    const Segment& it = market.segments[i];
    at(lead + of_seconds(it.begin), [this, i] { begin(i); });
    if (it.announced) {
      at(lead + of_seconds(std::max(it.begin + 1, it.end - model.notice)),
         [this, i] { announce(i); });
    }
    if (it.hint >= 0) {
      at(lead + of_seconds(it.hint), [this] {
        if (Host* host = ours()) sense(*host, decide::RebalanceRecommended{});
      });
    }
    at(lead + of_seconds(it.end), [this, i] { end(i); });
  }
}

Host* Replay::ours() {
  for (auto& [id, host] : hosts_) {
    if (host.alive) return &host;
  }
  return nullptr;
}

void Replay::begin(std::size_t index) {
  current_ = index;
  dollars_ = market_.prices[market_.segments[index].zone];
  world_.set_capacity(world_.settings().zones[market_.segments[index].zone], 1, now_);
}

void Replay::announce(std::size_t index) {
  world_.set_capacity(world_.settings().zones[market_.segments[index].zone], 0, now_);
  Host* host = ours();
  if (!host) return;
  const Duration left = of_seconds(
      std::min(model_.notice, market_.segments[index].end - market_.segments[index].begin - 1));
  (void)world_.interrupt(host->id, InterruptionAction::Terminate, left, now_);
  look_at_metadata(*host, random_.up_to(seconds(1)));
}

void Replay::end(std::size_t index) {
  world_.set_capacity(world_.settings().zones[market_.segments[index].zone], 0, now_);
  if (Host* host = ours()) (void)world_.kill(host->id, now_);
}

// A snapshot waits for the newest one of its line, then copies what changed since.
void Replay::before_snapshot(const VolumeId& volume) {
  const double written = disks_[volume].gigabytes_written;
  double base = 0;
  Duration pending{0};
  world_.cloud().snapshots.each([&](const world::Snapshot& it) {
    if (it.state != world::SnapshotState::Pending && it.state != world::SnapshotState::Completed) {
      return;
    }
    base = std::max(base, images_[it.id].gigabytes_written);
    pending = std::max<Duration>(pending, it.ends - now_);
  });
  const double copied = std::min(written - base, model_.stored()) / model_.snapshot_rate;
  const Duration takes = std::max(pending, of_seconds(model_.snapshot_least)) + of_seconds(copied);
  (void)world_.fault("snapshot-takes", {{"time", std::to_string(takes.count()) + "ms"}}, now_);
}

// A verification reads the whole checkpoint, of a new copy from where its snapshot is kept; and
// what was read a moment ago not again. A copy that is mounted is only made writable.
Duration Replay::takes(Host& host, const decide::Command& command) {
  if (const auto* it = std::get_if<decide::Mount>(&command)) {
    if (host.mounted == it->volume) return Simulation::takes(host, command);
    return of_seconds(model_.mount);
  }
  if (!std::holds_alternative<decide::VerifyCheckpoints>(command)) {
    return Simulation::takes(host, command);
  }
  const bool proven = std::get<decide::VerifyCheckpoints>(command).proven_step >= 0;
  if (proven) return Duration(1);  // agent/service/act/local.cpp
  if (disks_[host.mounted].newest() <= 0) return seconds(1);
  const world::Volume* volume = world_.cloud().volumes.find(host.mounted);
  const bool cold = volume && volume->cold && !std::exchange(loaded_[host.mounted], true);
  if (!cold) return of_seconds(model_.checkpoint / model_.disk);
  return world_.volumes(now_).read_first(host.mounted, mebibytes(model_.checkpoint),
                                         act::host::reads_at_once);
}

double Replay::position() const {
  return reached_ + std::max(0.0, since_ == decide::kNever ? 0.0 : seconds_of(now_ - since_));
}

decide::Happening Replay::start_trainer(Host& host) {
  Trainer& trainer = host.trainer;
  trainer = Trainer{};
  trainer.state = Trainer::State::Running;
  trainer.volume = host.mounted;
  trainer.run = ++numbers_;
  host.agent.watches_trainer = true;
  judge_start(host);
  Disk& disk = disks_[host.mounted];
  disk.gigabytes_written = std::max(disk.gigabytes_written, model_.data);
  reached_ = static_cast<double>(std::max<std::int64_t>(0, disk.newest()));
  repeated_ += std::max(0.0, furthest_ - reached_);
  furthest_ = reached_;
  // It was read a moment ago, to verify it: from memory.
  const double restores = reached_ > 0 ? model_.checkpoint / model_.memory_copy : 0;
  since_ = now_ + of_seconds(model_.trainer_start + restores);
  saving_ = false;
  every_ = host.agent.state.facts.trainer.advised_interval;
  plan_checkpoint(host, since_ - now_ + every_);
  plan_finish(host);
  return decide::TrainerStarted{};
}

void Replay::plan_checkpoint(Host& host, Duration later) {
  at(later, [this, id = host.id, run = host.trainer.run, plan = ++plan_] {
    Host* its = trainer_of(id, run);
    if (its && plan == plan_) save(*its);
  });
}

void Replay::plan_finish(Host& host) {
  const Duration left = of_seconds(std::max(0.0, model_.work - reached_));
  at(std::max<Duration>(Duration(0), since_ - now_) + left,
     [this, id = host.id, run = host.trainer.run, since = since_] {
       Host* its = trainer_of(id, run);
       if (its && since == since_) save_last(*its);
     });
}

void Replay::save(Host& host) {
  plan_checkpoint(host, every_);
  if (saving_ || host.trainer.stopping || now_ < since_) return;
  saving_ = true;
  reached_ = std::min(position(), model_.work - 1);
  const double stall = model_.checkpoint / model_.memory_copy;
  since_ = now_ + of_seconds(stall);
  plan_finish(host);
  at(of_seconds(stall + model_.checkpoint / model_.disk),
     [this, id = host.id, run = host.trainer.run, step = static_cast<std::int64_t>(reached_)] {
       if (Host* its = trainer_of(id, run)) durable(*its, step);
     });
}

void Replay::durable(Host& host, std::int64_t step) {
  saving_ = false;
  judge_write(host, "a checkpoint");
  Disk& disk = disks_[host.trainer.volume];
  disk.gigabytes_written += model_.checkpoint;
  disk.checkpoints.push_back({step, false});
  while (disk.checkpoints.size() > 3) disk.checkpoints.erase(disk.checkpoints.begin());
  durable_ = std::max(durable_, step);
  sense(host, decide::CheckpointMade{step, of_seconds(model_.checkpoint / model_.memory_copy)});
}

// The trainer leaves as soon as this one is durable; with all the work done, it has finished.
void Replay::save_last(Host& host) {
  if (host.trainer.stopping) return;
  host.trainer.stopping = true;
  reached_ = std::min(position(), model_.work);
  since_ = decide::kNever;
  furthest_ = std::max(furthest_, reached_);
  at(of_seconds(model_.checkpoint / model_.memory_copy + model_.checkpoint / model_.disk),
     [this, id = host.id, run = host.trainer.run] {
       Host* its = trainer_of(id, run);
       if (!its) return;
       durable(*its, static_cast<std::int64_t>(reached_));
       const bool finished = reached_ >= model_.work;
       if (finished) its->trainer.result_unsynced = true;
       end_trainer(*its, finished, !finished);
     });
}

// Like trainer/library/session.hpp: makes durable what exists, then trains on until the last moment
// at which a checkpoint is sure to be written in time.
void Replay::stop_trainer(Host& host, const decide::StopTrainer& why) {
  if (host.trainer.state != Trainer::State::Running || host.trainer.stopping) return;
  if (why.usable_until == decide::kNever || now_ < since_) return save_last(host);
  const double takes = model_.checkpoint / model_.memory_copy + model_.checkpoint / model_.disk;
  const Duration left = why.usable_until - now_ - of_seconds(1.2 * takes + 2);
  if (left <= of_seconds(takes * 2.3)) return save_last(host);
  save(host);
  at(left, [this, id = host.id, run = host.trainer.run] {
    if (Host* its = trainer_of(id, run)) save_last(*its);
  });
}

void Replay::pace_trainer(Host& host, const decide::PaceTrainer& advice) {
  every_ = advice.checkpoint_every;
  if (host.trainer.state != Trainer::State::Running) return;
  if (advice.asked != decide::kNever) save(host);
}

void Replay::trainer_dies(Host& host) {
  furthest_ = std::max(furthest_, position());
  since_ = decide::kNever;
  Simulation::trainer_dies(host);
}

Outcome Replay::play() {
  const Verdict verdict = run();
  if (!verdict.broken.empty() || verdict.outcome != "finished") {
    throw std::runtime_error("Spotter on the market: " + verdict.broken + verdict.outcome);
  }
  Outcome outcome;
  double paid = 0;
  Time last = kBegin;
  const auto& zones = world_.settings().zones;
  world_.cloud().instances.each([&](const world::Instance& it) {
    const Time died = it.died.value_or(it.launched);
    const double ran = seconds_of(died - it.launched);
    const auto zone =
        static_cast<std::size_t>(std::find(zones.begin(), zones.end(), it.zone) - zones.begin());
    paid += ran;
    outcome.cost += ran / 3600 * market_.prices[zone];
    last = std::max(last, died);
  });
  outcome.hours = seconds_of(last - kBegin - seconds(30)) / 3600;
  outcome.goodput = model_.work / paid;
  outcome.steps_repeated = repeated_;
  outcome.cost +=
      outcome.hours / 730 * model_.stored() * (model_.volume_dollars + model_.snapshot_dollars);
  outcome.cost += outcome.rates = world_.cloud().rate_dollars;
  return outcome;
}

}  // namespace

Outcome play_spotter(const Market& market, const MarketModel& model, std::uint64_t seed,
                     bool fence) {
  return Replay(market, model, seed, fence).play();
}

}  // namespace spotter::simulate
