// From "which volume is mine" to "it is mounted, and its newest checkpoint is whole". Every change
// at EC2 is followed by a fresh look (plan.cpp), so it does not matter where an earlier agent
// stopped.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage survey(Context& c) {
  c.ask(SurveyStorage{}, c.policy.ec2_call);
  return Surveying{};
}

Stage wait(Context& c, Wait why, Duration how_long) {
  const bool held = why == Wait::VolumeHeld || why == Wait::ShareHeld;
  if (held) c.facts.blocked = {};  // another instance gets on with it
  c.wake_in(how_long);
  return Waiting{why};
}

Duration backoff(const Policy& policy, std::uint32_t failures) {
  return std::min(policy.retry_last, policy.retry_first * (1 << std::min(failures, 10U)));
}

// A changing call whose answer was lost may show only after the consistency bound.
Stage retry_later(Context& c, const EffectFailed& failed) {
  const Duration pause = backoff(c.policy, c.facts.retries++);
  return wait(c, Wait::Retry, failed.unsettled ? c.policy.consistency_bound : pause);
}

Stage call_failed(Context& c, const EffectFailed& failed) {
  if (Next end = leaving(c)) return *end;
  if (failed.failure == Failure::Refused) return block(c, Block::NotPermitted, failed.detail);
  if (failed.failure == Failure::Rejected) return block(c, Block::Rejected, failed.detail);
  return retry_later(c, failed);
}

Stage block(Context& c, Block why, const Detail& detail) {
  // A file system that was shut down after an I/O error comes back only by a new mount, which
  // replays its log. `mounted` stays: it may be busy. What was not synced yet is lost with it, a
  // result among it.
  if (why == Block::MountFailed && c.facts.mounted) {
    c.facts.ended_success = false;
    if (on_share(c)) c.tell(ReleaseShare{}, c.policy.release_share);
    if (!on_share(c)) c.tell(Unmount{}, c.policy.unmount);
  }
  c.wake_in(c.policy.blocked_retry);
  return Blocked{why, detail};
}

Stage attach(Context& c, const VolumeId& volume, Purpose purpose) {
  // Each attachment has its own claim: it may have been free in between, and copied.
  c.facts.generation = 0;
  c.facts.volume = volume;
  c.facts.purpose = purpose;
  c.ask(AttachVolume{volume, c.facts.instance, c.facts.attach_attempt}, c.policy.ec2_call);
  return Attaching{volume};
}

// The attachment comes to nothing: let go of it, and look again. After some tries a person is asked
// in between; they go on, for it may be EC2 that mends it.
Stage attach_anew(Context& c, Block when_in_vain) {
  if (++c.facts.attach_attempt % c.policy.attach_tries == 0) {
    return block(c, when_in_vain, Detail(c.facts.volume.view()));
  }
  return let_go(c, After::Survey);
}

Stage read_account(Context& c) {
  c.ask(ReadLedger{}, account_limit(c));
  return ReadingAccount{};
}

Stage bring_up(Context& c) {
  c.ask(FindDevice{c.facts.volume, c.facts.attached_as}, c.policy.device);
  return FindingDevice{};
}

namespace {

// Local work that failed: either given up because we have to go, or a person must look.
Stage host_failed(Context& c, const EffectFailed& failed, Block why) {
  if (Next end = leaving(c)) return *end;
  if (failed.failure == Failure::Unavailable || failed.failure == Failure::ShareSilent ||
      failed.failure == Failure::Abandoned) {
    return retry_later(c, failed);
  }
  return block(c, why, failed.detail);
}

Stage verify(Context& c) {
  c.ask(VerifyCheckpoints{c.facts.purpose == Purpose::Prove}, c.policy.verify);
  return Verifying{};
}

// A copy that is blank like its parent, or whose newest checkpoint verifies, has proved itself.
Stage proved(Context& c) {
  c.facts.proven = c.facts.volume;
  c.facts.proven_at = kNever;
  return survey(c);
}

}  // namespace

Next on(const Surveying&, const StorageSurveyed& seen, Context& c) {
  if (Next end = leaving(c)) return end;
  return plan(seen.survey, c);
}

Next on(const Surveying&, const EffectFailed& failed, Context& c) { return call_failed(c, failed); }

Next on(const Waiting& stage, const Woke&, Context& c) {
  if (stage.why == Wait::TrainerRestart) return verify(c);  // what it left may be torn
  if (stage.why == Wait::ShareHeld) return read_fleet(c, 0);
  return prepare(c);
}

Next on(const Waiting&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  return let_go(c, After::Release);
}

Next on(const Waiting&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return let_go(c, After::Exit);
}

Next on(const Blocked& stage, const Woke&, Context& c) {
  if (c.policy.fills) return let_go(c, After::Exit);
  // Summed, for it may come again and again: a copy that vanishes is made anew each time.
  c.facts.blocked += c.policy.blocked_retry;
  if (c.facts.blocked >= c.policy.blocked_limit) {
    return give_up(c, Surrender::BlockedTooLong);
  }
  if (stage.why == Block::ManyInstances) return read_fleet(c, 0);
  // Nobody was to be asked for its fleet, which may start another machine.
  if (stage.why == Block::GpusAbsent && !c.facts.fleet_known) return identify(c, 0);
  return prepare(c);
}

Next on(const Blocked&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  return let_go(c, After::Release);
}

Next on(const Blocked&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return let_go(c, After::Exit);
}

// Accepted is not attached: the next looks will tell.
Next on(const Attaching&, const CallAccepted&, Context& c) {
  c.facts.attached = true;
  c.facts.changing_since = c.now;
  if (Next end = leaving(c)) return end;
  return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
}

Next on(const Attaching&, const EffectFailed& failed, Context& c) {
  // It may be attaching all the same; letting go of what we do not hold does no harm.
  c.facts.attached = failed.unsettled;
  if (failed.failure == Failure::Conflict)
    ++c.facts.attach_attempt;  // the device name may be taken
  return call_failed(c, failed);
}

Next on(const Claiming& stage, const CallAccepted&, Context& c) {
  c.facts.generation = stage.generation;
  c.facts.claimed_at = c.now;
  if (Next end = leaving(c)) return end;
  return survey(c);  // read back before anything is written
}

Next on(const Claiming&, const EffectFailed& failed, Context& c) { return call_failed(c, failed); }

Next on(const FindingDevice&, const DeviceFound& found, Context& c) {
  if (Next end = leaving(c)) return end;
  c.facts.device = found.device;
  c.ask(InspectDisk{found.device}, c.policy.inspect);
  return Inspecting{};
}

Next on(const FindingDevice&, const EffectFailed& failed, Context& c) {
  if (failed.failure != Failure::DeviceAbsent) return host_failed(c, failed, Block::DeviceAbsent);
  if (Next end = leaving(c)) return end;
  return attach_anew(c, Block::DeviceAbsent);
}

Next on(const Inspecting&, const DiskInspected& disk, Context& c) {
  if (Next end = leaving(c)) return end;
  if (disk.blank && !c.facts.ours_to_format) return block(c, Block::BlankNotOurs, {});
  if (disk.blank && c.facts.purpose == Purpose::Prove) return proved(c);
  if (disk.blank) {
    c.ask(MakeFilesystem{c.facts.device}, c.policy.make_filesystem);
    return Formatting{};
  }
  if (!disk.matches) return block(c, Block::DiskForeign, disk.found);
  c.ask(Mount{c.facts.device, c.facts.volume, c.facts.purpose == Purpose::Prove}, c.policy.mount);
  return Mounting{};
}

Next on(const Inspecting&, const EffectFailed& failed, Context& c) {
  return host_failed(c, failed, Block::DiskForeign);
}

Next on(const Formatting&, const FilesystemMade&, Context& c) {
  if (Next end = leaving(c)) return end;
  c.ask(Mount{c.facts.device, c.facts.volume, false}, c.policy.mount);
  return Mounting{};
}

Next on(const Formatting&, const EffectFailed& failed, Context& c) {
  return host_failed(c, failed, Block::DiskForeign);
}

Next on(const Mounting&, const Mounted&, Context& c) {
  c.facts.mounted = true;
  if (Next end = leaving(c)) return end;
  return c.policy.fills ? fill(c) : read_account(c);
}

Next on(const Mounting&, const EffectFailed& failed, Context& c) {
  // A mount that was given up or timed out may have happened: unmounting settles it.
  const bool unsure = failed.failure == Failure::Abandoned || failed.unsettled;
  c.facts.mounted = c.facts.mounted || unsure;
  const bool damaged = failed.failure == Failure::FilesystemDamaged;
  return host_failed(c, failed, damaged ? Block::FilesystemDamaged : Block::MountFailed);
}

Next on(const ReadingAccount&, const LedgerRead& read, Context& c) {
  c.facts.ledger = read.ledger;
  c.facts.ledger_known = true;
  if (c.facts.accounted == kNever) c.facts.accounted = c.now;
  if (c.facts.trainer_running) return train(c);
  if (c.facts.purpose == Purpose::Train) {
    // Its instance is gone, and nobody saw it end.
    if (c.facts.ledger.running && !c.facts.ended_success) ++c.facts.ledger.losses;
    c.facts.ledger.running = false;
  }
  if (Next end = leaving(c)) return end;
  return verify(c);
}

Next on(const ReadingAccount&, const EffectFailed& failed, Context& c) {
  if (c.facts.trainer_running) return train(c);
  return host_failed(c, failed, Block::MountFailed);
}

Next on(const Verifying&, const CheckpointsVerified& seen, Context& c) {
  c.facts.checkpoint_step = seen.newest.value_or(-1);
  if (Next end = leaving(c)) return end;
  if (c.facts.checkpoint_step > c.facts.ledger.newest_step && c.facts.purpose == Purpose::Train) {
    c.facts.ledger.newest_step =
        c.facts.checkpoint_step;  // progress that nobody was there to write
    forget_failures(c);
  }
  if (c.facts.purpose == Purpose::Train) return prepare_training(c);
  // The copy's own ledger says which checkpoint must be there. If it is not, the original stays. A
  // trainer with a format of its own has none that we could verify: then the file system must do.
  const bool other_format = !seen.newest && seen.torn == 0;
  const bool whole = other_format || c.facts.checkpoint_step >= c.facts.ledger.newest_step;
  return whole ? proved(c) : block(c, Block::CopyDamaged, {});
}

Next on(const Verifying&, const EffectFailed& failed, Context& c) {
  const bool runs = failed.failure == Failure::TrainerUnstartable;
  return host_failed(c, failed, runs ? Block::TrainerUnstartable : Block::MountFailed);
}

}  // namespace spotter::decide
