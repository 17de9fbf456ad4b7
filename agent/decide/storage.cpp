// From finding the job's volume to mounting it and verifying its newest checkpoint. A fresh survey
// follows every change at EC2 (plan.cpp), so it does not matter where an earlier agent stopped.
#include <algorithm>
#include <utility>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage survey(Context& c) {
  // The look that a commit follows from must not be old (migrate.cpp).
  const bool commits = c.facts.move.verified && !c.policy.fence;
  c.ask(SurveyStorage{c.facts.move.lineage}, commits ? c.policy.commit_call : c.policy.ec2_call);
  return Surveying{};
}

Stage wait(Context& c, Wait why, Duration how_long) {
  const bool held = why == Wait::VolumeHeld || why == Wait::ShareHeld || why == Wait::HomeHeld;
  if (held) c.facts.trouble.blocked = {};  // another instance works
  c.wake_in(how_long);
  return Waiting{why};
}

Duration backoff(const Policy& policy, std::uint32_t failures) {
  return std::min(policy.retry_last, policy.retry_first * (1 << std::min(failures, 10U)));
}

// EC2 may show the effect of a call whose answer was lost only after the consistency bound.
Stage retry_later(Context& c, const EffectFailed& failed) {
  const Duration pause = backoff(c.policy, c.facts.trouble.retries++);
  return wait(c, Wait::Retry, failed.unsettled ? c.policy.consistency_bound : pause);
}

Stage call_failed(Context& c, const EffectFailed& failed) {
  if (Next end = leaving(c)) return *end;
  if (failed.failure == Failure::Refused) return block(c, Block::NotPermitted, failed.detail);
  if (failed.failure == Failure::Rejected) return block(c, Block::Rejected, failed.detail);
  return retry_later(c, failed);
}

// A machine that is given back anyway needs no person to mend it. If it stayed blocked for long, it
// would end the fleet, which has the gang's other machines, too.
Stage block(Context& c, Block why, const Detail& detail) {
  if (hinders_gang(c)) return leave_gang(c);
  // A file system that was shut down after an I/O error works again only after a new mount, which
  // replays its log. `mounted` stays: the unmount may fail. All that was not synced is lost, also a
  // result.
  if (why == Block::MountFailed && c.facts.holding.mounted) {
    c.facts.trainer.ended_success = false;
    if (on_share(c)) c.issue(ReleaseShare{}, c.policy.release_share);
    if (!on_share(c)) c.issue(unmount_of(c), c.policy.unmount);
  }
  c.wake_in(c.policy.blocked_retry);
  return Blocked{why, detail};
}

Stage attach(Context& c, const VolumeId& volume, Purpose purpose) {
  // Each attachment has its own claim: it may have been free in between, and copied.
  c.facts.holding.generation = 0;
  c.facts.move.proven_step = -1;
  c.facts.holding.volume = volume;
  c.facts.holding.purpose = purpose;
  c.facts.holding.unproven = false;
  c.facts.holding.device = {};
  c.ask(AttachVolume{volume, c.facts.identity.instance, c.facts.holding.attach_attempt},
        c.policy.ec2_call);
  return Attaching{volume};
}

// The attachment failed: release it, and look again. Every few tries the agent is blocked until a
// person acts, and then tries on, for the cause may be EC2's.
Stage reattach(Context& c, Block when_in_vain) {
  if (++c.facts.holding.attach_attempt % c.policy.attach_tries == 0)
    return block(c, when_in_vain, Detail(c.facts.holding.volume.view()));
  return release_storage(c, ReleaseGoal::Survey);
}

Stage read_ledger(Context& c) {
  c.ask(ReadLedger{}, ledger_limit(c));
  return ReadingLedger{};
}

namespace {

Stage mount_it(bool read_only, Context& c) {
  c.ask(Mount{c.facts.holding.device, c.facts.holding.volume, read_only}, c.policy.mount);
  return Mounting{};
}

// Local work that failed: it was abandoned because we have to leave, or a person must look.
Stage host_failed(Context& c, const EffectFailed& failed, Block why) {
  if (Next end = leaving(c)) return *end;
  if (hinders_gang(c)) return leave_gang(c);
  if (failed.failure == Failure::Unavailable || failed.failure == Failure::ShareSilent ||
      failed.failure == Failure::Abandoned) {
    return retry_later(c, failed);
  }
  return block(c, why, failed.detail);
}

Stage verify(Context& c) {
  const bool trains = c.facts.holding.purpose == Purpose::Train;
  const bool proven = trains && c.facts.move.verified == c.facts.holding.volume;
  const std::int64_t step = std::exchange(c.facts.move.proven_step, -1);
  c.ask(VerifyCheckpoints{!trains, proven ? step : -1}, c.policy.verify);
  return Verifying{};
}

// A copy is verified when it is blank like its parent, or when its newest checkpoint is whole.
Stage remember_verified(std::int64_t proven_step, Context& c) {
  c.facts.move.verified = c.facts.holding.volume;
  c.facts.move.proven_step = proven_step;
  c.facts.move.marked = false;
  return survey(c);
}

Stage promote_candidate(const Survey& survey, const SeenVolume& best, Context& c) {
  const SeenVolume* held = other_attached_here(survey, c.facts, best.id);
  if (held) return drop(*held, c);  // ours was not elected
  const bool elsewhere = best.holder && best.holder != c.facts.identity.instance;
  if (elsewhere && best.holder_state == HolderState::Alive) return held_by_other(best, c);
  c.ask(PromoteVolume{best.id}, c.policy.ec2_call);
  return Promoting{best.id};
}

}  // namespace

// A copy that was verified here is mounted, and may be written to once it is the job's.
Stage bring_up(Context& c) {
  const Facts::Holding& holding = c.facts.holding;
  const bool verified = holding.mounted && c.facts.move.verified == holding.volume;
  const bool there = verified && !holding.device.empty();
  if (there && holding.purpose == Purpose::Train) return mount_it(false, c);
  c.ask(FindDevice{c.facts.holding.volume, c.facts.holding.attached_as}, c.policy.device);
  return FindingDevice{};
}

Next on(const Surveying&, const StorageSurveyed& seen, Context& c) {
  if (Next end = leaving(c)) return end;
  if (in_bucket(c)) return take_home(seen.survey, c);
  return plan_spaced(seen.survey, c);
}

Next on(const Waiting& stage, const Woke&, Context& c) {
  // The trainer may have left torn checkpoints; if it was adopted, the ledger may still be unread.
  if (stage.why == Wait::TrainerRestart && !c.facts.progress.ledger_known) return read_ledger(c);
  if (stage.why == Wait::TrainerRestart) return verify(c);
  if (stage.why == Wait::ShareHeld || stage.why == Wait::FleetUnseen) return read_fleet(c, 0);
  return prepare(c);
}

Next on(const Blocked& stage, const Woke&, Context& c) {
  if (c.policy.fills) return release_storage(c, ReleaseGoal::Exit);
  // Summed over all blocks: a copy that vanishes, for one, is made again each time.
  c.facts.trouble.blocked += c.policy.blocked_retry;
  // The machine before this one waited for a right in vain, and could not end the fleet either.
  const bool in_vain = stage.why == Block::NotPermitted && c.facts.identity.shut_down;
  if (c.facts.trouble.blocked >= (in_vain ? c.policy.blocked_again : c.policy.blocked_limit))
    return give_up(c, Surrender::BlockedTooLong);
  // Its fleet could not be read before; it may launch another machine.
  const bool unfit = stage.why == Block::GpusAbsent || c.facts.trouble.left_since != kNever ||
                     c.facts.exit.hinders_gang;
  if (unfit && !c.facts.identity.fleet_known) return identify(c, 0);
  // Another instance may have the share by now; what the fleet showed before may have been old.
  const bool looks = fleet_decides(c) && !c.policy.foreground && c.facts.identity.instance;
  return looks ? read_fleet(c, 0) : prepare(c);
}

// EC2 has accepted the call; the next surveys show when it is attached.
Next on(const Attaching&, const CallAccepted&, Context& c) {
  c.facts.holding.attached = true;
  c.facts.holding.changing_since = c.now;
  if (Next end = leaving(c)) return end;
  return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
}

Next on(const Attaching&, const EffectFailed& failed, Context& c) {
  // It may be attaching all the same; releasing what we do not hold does no harm.
  c.facts.holding.attached = failed.unsettled;
  if (failed.failure == Failure::Conflict)
    ++c.facts.holding.attach_attempt;  // the device name may be taken
  return call_failed(c, failed);
}

Next on(const Claiming& stage, const CallAccepted&, Context& c) {
  c.facts.holding.generation = stage.generation;
  c.facts.holding.claimed_at = c.now;
  if (Next end = leaving(c)) return end;
  return survey(c);  // read back before anything is written
}

Next on(const FindingDevice&, const DeviceFound& found, Context& c) {
  if (Next end = leaving(c)) return end;
  c.facts.holding.device = found.device;
  c.ask(InspectDisk{found.device}, c.policy.inspect);
  return Inspecting{};
}

Next on(const FindingDevice&, const EffectFailed& failed, Context& c) {
  if (failed.failure != Failure::DeviceAbsent) return host_failed(c, failed, Block::DeviceAbsent);
  if (Next end = leaving(c)) return end;
  return reattach(c, Block::DeviceAbsent);
}

Next on(const Inspecting&, const DiskInspected& disk, Context& c) {
  if (Next end = leaving(c)) return end;
  if (disk.blank && !c.facts.holding.ours_to_format) return block(c, Block::BlankNotOurs, {});
  if (disk.blank && c.facts.holding.purpose == Purpose::Verify) return remember_verified(-1, c);
  if (disk.blank) {
    c.ask(MakeFilesystem{c.facts.holding.device}, c.policy.make_filesystem);
    return Formatting{};
  }
  if (!disk.matches) return block(c, Block::DiskForeign, disk.found);
  return mount_it(c.facts.holding.purpose == Purpose::Verify, c);
}

Next on(const Inspecting&, const EffectFailed& failed, Context& c) {
  return host_failed(c, failed, Block::DiskForeign);
}

Next on(const Formatting&, const FilesystemMade&, Context& c) {
  if (Next end = leaving(c)) return end;
  return mount_it(false, c);
}

Next on(const Formatting&, const EffectFailed& failed, Context& c) {
  return host_failed(c, failed, Block::DiskForeign);
}

Next on(const Mounting&, const Mounted&, Context& c) {
  c.facts.holding.mounted = true;
  if (Next end = leaving(c)) return end;
  return c.policy.fills ? fill(c) : read_ledger(c);
}

Next on(const Mounting&, const EffectFailed& failed, Context& c) {
  // A mount that was abandoned or timed out may have happened: unmounting settles it.
  const bool unsure = failed.failure == Failure::Abandoned || failed.unsettled;
  c.facts.holding.mounted = c.facts.holding.mounted || unsure;
  c.facts.holding.device = {};  // to be looked for again
  const bool damaged = failed.failure == Failure::FilesystemDamaged;
  return host_failed(c, failed, damaged ? Block::FilesystemDamaged : Block::MountFailed);
}

Next on(const ReadingLedger&, const LedgerRead& read, Context& c) {
  learn_others(c, read);
  c.facts.progress.ledger = read.ledger;
  c.facts.progress.ledger_known = true;
  if (c.facts.progress.counted_until == kNever) c.facts.progress.counted_until = c.now;
  if (c.facts.trainer.running) return train(c);
  if (c.facts.holding.purpose == Purpose::Train) {
    // The instance of the earlier trainer is gone, and no agent recorded how it ended.
    if (c.facts.progress.ledger.running && !c.facts.trainer.ended_success)
      ++c.facts.progress.ledger.losses;
    c.facts.progress.ledger.running = false;
    c.facts.progress.ledger.dollars += std::exchange(c.facts.move.rate_dollars, 0);
  }
  if (Next end = leaving(c)) return end;
  // By a machine that could not end the fleet, which launched this one: it trains no more.
  const bool given_up = std::exchange(c.facts.progress.ledger.given_up, false) &&
                        c.facts.holding.purpose == Purpose::Train;
  if (given_up && c.facts.identity.shut_down) return give_up(c, Surrender::BlockedTooLong);
  return verify(c);
}

Next on(const ReadingLedger&, const EffectFailed& failed, Context& c) {
  if (c.facts.trainer.running) return train(c);
  if (reads_again(c, failed)) {
    c.wake_in(c.policy.release_again);
    return std::nullopt;
  }
  return host_failed(c, failed, Block::MountFailed);
}

Next on(const ReadingLedger&, const Woke&, Context& c) {
  if (!c.state.awaited) {
    limit_bringing(c);
    return read_ledger(c);
  }
  end_bringing(c);
  return std::nullopt;
}

Next on(const Verifying&, const CheckpointsVerified& seen, Context& c) {
  Facts::Progress& progress = c.facts.progress;
  progress.checkpoint_step = seen.newest.value_or(-1);
  progress.counts_writes = seen.write;
  if (Next end = leaving(c)) return end;
  if (progress.checkpoint_step > progress.ledger.newest_step &&
      c.facts.holding.purpose == Purpose::Train) {
    progress.ledger.newest_step = progress.checkpoint_step;  // which no agent recorded
    reset_failures(c);
  }
  if (c.facts.holding.purpose == Purpose::Train) return prepare_training(c);
  // The copy's own ledger says which checkpoint must be there. If it is not, the original stays. A
  // trainer with a format of its own has none that we could verify: then the file system must do.
  const bool other_format = !seen.newest && seen.torn == 0;
  const bool whole = other_format || progress.checkpoint_step >= progress.ledger.newest_step;
  if (!whole) return block(c, Block::CopyDamaged, {});
  return remember_verified(seen.torn == 0 ? progress.checkpoint_step : -1, c);
}

Next on(const Verifying&, const EffectFailed& failed, Context& c) {
  const bool runs = failed.failure == Failure::TrainerUnstartable;
  return host_failed(c, failed, runs ? Block::TrainerUnstartable : Block::MountFailed);
}

// No volume carries the discovery tag. Either a move was committed and its candidate is not yet
// promoted, or the volume was lost, or there never was one.

const SeenVolume* elect(const Survey& survey) {
  const SeenVolume* best = nullptr;
  for (const SeenVolume& volume : survey.volumes) {
    const bool able = volume.role == Role::Verified && volume.state != VolumeState::Deleting &&
                      volume.state != VolumeState::Error;
    if (!able) continue;
    // A copy of an earlier generation lacks what was written since, whatever its id.
    const auto age = [](const SeenVolume& it) { return std::pair(it.generation, it.moves); };
    const bool newer = best && age(volume) > age(*best);
    const bool tie = best && age(volume) == age(*best) && volume.id < best->id;
    if (!best || newer || tie) best = &volume;
  }
  return best;
}

// The session that committed promotes its copy so that it is seen by then (migrate.cpp). Another
// candidate may have been verified or promoted just now: each has its own bound.
Duration commit_settles_in(const VolumeId& elected, Context& c) {
  Facts::Move& move = c.facts.move;
  if (move.parent_gone_since == kNever || move.elected != elected) {
    move.parent_gone_since = c.now;
    move.elected = elected;
  }
  return move.parent_gone_since + 2 * c.policy.consistency_bound - c.now;
}

Stage recover(const Survey& survey, const Survey& everything, Context& c) {
  const SeenVolume* best = elect(survey);
  const SeenSnapshot* newest = nullptr;
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.state != SnapshotState::Completed) continue;
    if (!newest || snapshot.started > newest->started) newest = &snapshot;
  }
  // Only a person removes the discovery tag of the job's volume, and only a person can restore it.
  for (const SeenVolume& volume : (best ? survey : everything).volumes) {
    const bool lost = volume.role == Role::State && volume.state != VolumeState::Deleting;
    if (lost && !volume.discoverable) return block(c, Block::NoVolume, Detail(volume.id.view()));
  }
  // In the middle of a move EC2 may show no more yet than a copy without its tags.
  const bool moves = !survey.snapshots.empty() ||
                     std::any_of(survey.volumes.begin(), survey.volumes.end(), is_copy);
  if (!moves) return block(c, Block::NoVolume, {});
  const Duration left = commit_settles_in(best ? best->id : VolumeId(), c);
  if (left > Duration::zero())
    return wait(c, Wait::CommitSettling, std::min<Duration>(left, c.policy.poll_snapshot));
  if (best) return promote_candidate(survey, *best, c);
  if (!newest) return block(c, Block::NoVolume, {});
  return advance_candidate(survey, newest->parent, newest->generation, true, c);
}

}  // namespace spotter::decide
