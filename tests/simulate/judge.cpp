// The invariants of the world, whatever happened (shared design: "What must hold, always"). Asked
// at every change, of the truth that no agent sees.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::hours;
using std::chrono::minutes;

namespace {

bool exists(const world::Volume& volume) { return volume.state != world::VolumeState::Deleted; }

bool has(const world::Tags& tags, const char* key, const char* value) {
  const auto found = tags.find(key);
  return found != tags.end() && found->second == value;
}

// The volume that users and agents take for the job's.
bool is_current(const world::Volume& volume) {
  return exists(volume) && has(volume.tags, kDiscoveryKey, kDiscoveryValue);
}

bool is_held_by(const world::Volume& volume, const InstanceId& holder) {
  return volume.attachment && volume.attachment->instance == holder;
}

template <class... Commands>
bool is(const decide::Command& command) {
  return (std::holds_alternative<Commands>(command) || ...);
}

}  // namespace

void Simulation::broken(const std::string& words) {
  if (!verdict_.broken.empty()) return;
  verdict_.broken = words;
  say("judge", "BROKEN: ", words);
}

// 2 and 3: one writer; nothing durable is lost; nothing torn is resumed from.
void Simulation::judge_start(const Host& host) {
  int running = 0;
  bool hidden = true;  // from each of them
  for (const auto& [id, other] : hosts_) {
    if (!other.alive || other.trainer.state != Trainer::State::Running || other.trainer.killed)
      continue;
    ++running;
    hidden = hidden && is_target_hidden(other);
  }
  if (running > 1 && in_bucket()) running = 1;  // what counts there is what is committed
  if (running > 1 && hidden)
    verdict_.outcome = "two writers, of a target raised unseen";
  else if (running > 1)
    broken("two trainers write one history");
  if (policy_.gpus > 0 && !host.saw_gpus) broken("a trainer is started before its GPUs were seen");
  if (policy_.data > 0) judge_data(host);
  if (on_share()) judge_many(host);
  if (in_bucket()) judge_start_at_home(host);
  for (const auto& [id, other] : hosts_)
    if (other.alive && is_left(other) && other.trainer.volume == host.mounted)
      broken("a trainer is started beside processes of the one before");
  const Disk& disk = disks_[host.mounted];
  if (prepared_ && !disk.filled) broken("a trainer is started without what was prepared");
  if (disk.newest() < durable_ && !in_bucket()) {
    broken("a durable checkpoint is lost: step " + std::to_string(durable_) +
           " was, the trainer resumes at " + std::to_string(disk.newest()));
  }
  // A trainer with libspotter passes a torn file over; any other takes the newest there is.
  if (!work_.aware && disk.has_torn() && !disk.full && !host.shut_down) {
    broken("a trainer is started beside a torn checkpoint");
  }
  judge_write(host, "a trainer");
}

// 1 and 2: only the job's one volume is written to, and only by its holder.
void Simulation::judge_write(const Host& host, const char* what) {
  if (on_share()) return judge_share_write(host, what);
  if (in_bucket()) return;  // the folder here is this machine's own
  const world::Volume* volume = world_.cloud().volumes.find(host.mounted);
  if (!volume || !exists(*volume) || !is_held_by(*volume, host.id)) {
    return broken(std::string(what) + " is written to a volume that is not attached here");
  }
  if (policy_.fence) return judge_fenced_write(host, what);
  if (!is_current(*volume) || is_aside(volume->id)) {
    return broken(std::string(what) + " is written to a volume that is not the job's");
  }
  world_.cloud().volumes.each([&](const world::Volume& other) {
    if (other.id != volume->id && is_current(other) && !is_aside(other.id)) {
      broken(std::string(what) + " is written to " + volume->id.str() + " while " + other.id.str() +
             " is the job's volume, too");
    }
  });
}

// 5 and 9: the fleet ends for a reason. 7: after a notice nothing long is begun.
void Simulation::judge_effect(const Host& host, const decide::Command& command) {
  using namespace decide;
  if (host.agent.state.facts.exit.surrender != Surrender::None) given_back_ = 0;
  if (on_share()) judge_on_share(command);
  if (in_bucket()) judge_in_bucket(command);
  if (is<CancelFleet>(command)) judge_cancel(host.id);
  if (is<ScaleFleetToZero>(command)) judge_surrender(host.id);
  if (is<GiveBackInstance>(command)) judge_give_back(host.id);
  const auto* detach = std::get_if<decide::DetachVolume>(&command);
  if (detach && detach->instance == host.id) judge_hold(host);
  if (!host.agent.state.facts.exit.notice) return;
  const bool is_long =
      is<decide::AttachVolume, decide::CreateVolume, MakeFilesystem, decide::Mount,
         VerifyCheckpoints, AwaitGpus, PrepareData, FetchCode, FillVolume, StartTrainer>(command);
  // The last one is only asked for: EC2 makes it while the volume is released.
  const bool last = std::holds_alternative<FinalSnapshot>(host.agent.state.stage);
  if (is_long || (is<decide::CreateSnapshot>(command) && !last))
    broken("something long is begun after a notice");
}

// 1: the original goes only when its successor is there, attached and verified, and has it all.
void Simulation::judge_removal(const VolumeId& removed) {
  const world::Volume& gone = *world_.cloud().volumes.find(removed);
  const Disk& disk = disks_[removed];
  bool verified = false;
  bool result = false;
  world_.cloud().volumes.each([&](const world::Volume& other) {
    if (!exists(other) || other.id == removed) return;
    result = result || disks_[other.id].result;
    const bool is_verified = has(other.tags, "spotter:role", "verified") || is_current(other);
    verified = verified || (is_verified && disks_[other.id].newest() >= disk.newest());
  });
  if (disk.result && !result) broken("the result was deleted");
  judge_durable("a volume is deleted");
  judge_filled("a volume is deleted");
  if (policy_.fence) return judge_fenced_removal(removed);
  const bool original = has(gone.tags, kDiscoveryKey, kDiscoveryValue);
  if (original && durable_ >= 0 && !verified) {
    broken("the original was deleted without a verified copy");
  }
}

// 3: somewhere is a volume with all that was ever called durable.
void Simulation::judge_durable(const char* what) {
  if (in_bucket()) return judge_progress(what);
  std::int64_t best = on_share() ? disks_[kShare].newest() : -1;
  world_.cloud().volumes.each([&](const world::Volume& other) {
    if (exists(other)) best = std::max(best, disks_[other.id].newest());
  });
  if (best < durable_) {
    broken(std::string(what) + ": step " + std::to_string(durable_) +
           " was durable; the newest left is " + std::to_string(best));
  }
}

// 5: the result is durable, or the job's own policy says so.
void Simulation::judge_cancel(const InstanceId& caller) {
  const decide::Facts& facts = hosts_[caller].agent.state.facts;
  cancelled_ = std::min(cancelled_, now_);
  if (!facts.exit.done) {
    if (policy_.then != GiveUp::Cancel) broken("the policy does not say: cancel");
    if (facts.exit.surrender == decide::Surrender::BlockedTooLong) {
      broken("the fleet is cancelled for what a person must mend");
    }
    return judge_surrender(caller);
  }
  tidying_since_ = std::min(tidying_since_, facts.tidying.since);
  if (!is_result_there()) broken("the fleet is cancelled, and there is no result");
  if (policy_.sends_result && result_at_ > now_ && sends_failed_ < policy_.send_tries)
    broken("the fleet is cancelled, and nobody sent the result");
}

bool Simulation::is_result_there() const {
  if (in_bucket()) {
    const Disk* there = committed();
    return there && there->result && head_now().epoch.state == decide::Epoch::State::Done;
  }
  const auto on = [this](const VolumeId& disk) {
    const auto found = disks_.find(disk);
    return found != disks_.end() && found->second.result;
  };
  bool result = on(kShare);
  world_.cloud().volumes.each(
      [&](const world::Volume& volume) { result = result || (exists(volume) && on(volume.id)); });
  return result;
}

namespace {

std::uint32_t snapshots_in_the_bin(const world::Cloud& cloud) {
  std::uint32_t found = 0;
  cloud.snapshots.each(
      [&](const auto& it) { found += it.state == world::SnapshotState::Recoverable ? 1U : 0U; });
  return found;
}

}  // namespace

// 9: given up for the reason that is given, and for no other.
void Simulation::judge_surrender(const InstanceId& caller) {
  const Host& host = hosts_[caller];
  Duration ran = instance_time_;
  for (const auto& [id, other] : hosts_) ran += other.alive ? now_ - other.booted : Duration{0};
  const double instance_hours = std::chrono::duration<double, std::ratio<3600>>(ran).count();
  const std::uint64_t most = policy_.attempts_without_progress;
  surrender_ = host.agent.state.facts.exit.surrender;
  switch (surrender_) {
    case decide::Surrender::None:
      return broken("given up without a reason");
    case decide::Surrender::NoProgress:
      if (ends_in_vain_ < most) broken("given up though the job had not failed often enough");
      return;
    case decide::Surrender::StartsInVain:
      if (starts_in_vain_ + starts_counted_ < most * policy_.starts_per_attempt)
        broken("given up though the trainer was not started often enough");
      return;
    case decide::Surrender::HoursSpent:
      if (instance_hours < policy_.hours_limit) broken("given up before the hours were spent");
      return;
    case decide::Surrender::DollarsSpent:
      if (instance_hours * 0.9 < policy_.dollars_limit)
        broken("given up before the money was spent");
      return;
    case decide::Surrender::GpusAbsent:
      if (!host.lacks_gpus) broken("given up for GPUs that are there");
      if (ends_in_vain_ < most) broken("given up before enough machines were tried");
      return;
    case decide::Surrender::BlockedTooLong:
      // A disk that EC2 attaches again and again, and whose device stays away for an hour.
      if (menu_.has(Fault::DeviceAbsent) &&
          host.agent.state.facts.holding.attach_attempt >= policy_.attach_tries)
        return;
      // Somebody puts away what a move is made of, as often as it is made.
      if (snapshots_in_the_bin(world_.cloud()) >= policy_.changes_in_vain) return;
      // The one machine of a run that has lost its GPUs is for a person, whatever else is wrong.
      if (!needs_person_ && !(share_.once && host.lacks_gpus))
        broken("given up though nothing needed a person");
  }
}

// 6: whatever was made for the job is gone, but its one volume.
void Simulation::judge_end() {
  const world::FleetRequest* fleet = world_.cloud().fleets.find(fleet_.id);
  verdict_.outcome = fleet->state == world::FleetState::Cancelled ? "finished" : "given up";
  int volumes = 0;
  int snapshots = 0;
  std::string names;
  world_.cloud().volumes.each([&](const world::Volume& volume) {
    if (!exists(volume) || is_aside(volume.id)) return;
    ++volumes;
    names += " " + volume.id.str();
  });
  world_.cloud().snapshots.each([&](const world::Snapshot& snapshot) {
    // In the recycle bin it is the user's rules that end it.
    if (snapshot.id == source_ || namesake_snapshots_.count(snapshot.id) ||
        past_snapshots_.count(snapshot.id) || snapshot.state == world::SnapshotState::Deleted ||
        snapshot.state == world::SnapshotState::Recoverable) {
      return;
    }
    ++snapshots;
    names += " " + snapshot.id.str();
  });
  const bool result = is_result_there();
  const bool cancelled = fleet->state == world::FleetState::Cancelled;
  if (surrender_ != decide::Surrender::None && !(cancelled && result)) return judge_rest();
  if (!result) broken("the end without a result");
  // The stated end: who was kept from tidying for so long, by faults, cancels all the same.
  const bool kept = cancelled_ - tidying_since_ >= policy_.tidy_limit && tidying_since_ < calm_;
  if (!kept && (volumes != (on_volume() ? 1 : 0) || snapshots != 0))
    broken("something is left behind:" + names);
  if (kept) verdict_.outcome = "finished, not tidied";
}

// A job that was given up: nothing is lost, nothing deleted, and it does not cost on.
void Simulation::judge_rest() {
  const char* reasons[] = {"",        "no progress", "hours",         "dollars",
                           "blocked", "gpus",        "starts in vain"};
  verdict_.outcome = std::string("given up: ") + reasons[static_cast<std::size_t>(surrender_)];
  judge_durable("given up");
  const std::uint64_t most = policy_.attempts_without_progress;
  // Attempts that could not be written to the ledger before the instance was lost are made once
  // more. An agent that gives up leaves a ledger for a person's fresh start: if it is killed before
  // its fleet is at zero, the next agent starts fresh.
  const std::uint64_t slack = verdict_.instances + killed_giving_up_ * most;
  if (!in_bucket() && starts_in_vain_ > most * policy_.starts_per_attempt + slack) {
    broken("it was tried far too often");
  }
}

}  // namespace spotter::simulate
