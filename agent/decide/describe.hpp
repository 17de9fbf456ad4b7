// Words for stages, events, effects and reasons: for the journal, `spotter status` and the golden
// table.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "agent/decide/effect.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter::decide {

// "finding-device", "notice-seen", "attach-volume": stable names for machines.
std::string_view name(const Stage& stage);
std::string_view name(const Happening& happening);
std::string_view name(const Command& command);

template <class Why>
struct Said {
  Why why;
  std::string_view event;  // of the journal (wire/events.hpp); empty: none
  std::string_view words;
};

// Why nothing moves.
inline constexpr auto wait_words = std::to_array<Said<Wait>>({
    {Wait::Retry, "", "a call failed; looking again soon"},
    {Wait::VolumeHeld, "volume-held", "the volume is attached to another instance; waiting for it"},
    {Wait::VolumeChanging, "", "the volume is changing its state"},
    {Wait::SnapshotPending, "", "the snapshot is not completed yet"},
    {Wait::CommitSettling, "", "the original is gone; making sure which copy follows it"},
    {Wait::TrainerRestart, "", "the trainer ended; starting it again after a pause"},
    {Wait::ShareHeld, "share-held",
     "an instance of the fleet that began earlier is not gone yet, and may use the share"},
    {Wait::HomeHeld, "",
     "another machine has the job's home in the bucket; waiting until it releases it, or ends"},
    {Wait::FleetUnseen, "",
     "EC2 does not show yet which fleet this instance is of, and an earlier one of it may use "
     "the share; asking again for two minutes"},
});
// The problem and what to do about it, for the person who has to act.
inline constexpr auto block_words = std::to_array<Said<Block>>({
    {Block::NoVolume, "no-volume",
     "no volume carries the tag of storage.ebs.tag (in a sweep, its value and -INDEX): create "
     "one in the region, or correct the tag in job.yaml"},
    {Block::TwoVolumes, "two-volumes",
     "several volumes carry the tag of storage.ebs.tag: remove it from all but one"},
    {Block::VolumeBroken, "volume-broken",
     "EC2 reports the volume in state `error`: restore it from a snapshot and move the tag"},
    {Block::CopyDamaged, "copy-damaged",
     "the copy of the volume lacks the newest checkpoint; the original is kept. Check the "
     "checkpoints on the original"},
    {Block::BlankNotOurs, "blank-not-ours",
     "the volume is blank, and not marked as ours to format: check that it is the right one, "
     "then tag it spotter:format=blank"},
    {Block::DiskForeign, "disk-foreign",
     "the disk holds something other than the file system that job.yaml names; nothing was "
     "written to it. Correct storage.ebs.filesystem or the tag"},
    {Block::FilesystemDamaged, "file-system-damaged",
     "the file system is damaged; nothing was written to it. Repair it by hand (xfs_repair, "
     "e2fsck) or restore a snapshot"},
    {Block::MountFailed, "mount-failed", "the file system could not be used"},
    {Block::ShareUnusable, "share-unusable",
     "the share, or the home in the bucket, cannot be used"},
    {Block::ShareSilent, "share-silent", "the share's server does not answer"},
    {Block::ManyInstances, "many-instances",
     "the fleet keeps more than one instance, and without a bucket nothing on a share tells one "
     "writer from two: set its target capacity to 1"},
    {Block::DataUnusable, "data-unusable",
     "a volume of data cannot be used: see `data` under storage in job.yaml"},
    {Block::FenceOther, "fence-unusable",
     "the tag spotter:fence names another fence than job.yaml: see spotter-storage(7)"},
    {Block::FenceGone, "fence-unusable",
     "the fence's, or the home's, object in S3 is not there: see spotter-storage(7)"},
    {Block::HomeGone, "share-unusable",
     "the fence's, or the home's, object in S3 is not there: see spotter-storage(7)"},
    {Block::DeviceAbsent, "device-absent",
     "the volume is attached, but its device did not appear: see `lsblk -o NAME,SERIAL`"},
    {Block::VolumeStuck, "volume-stuck",
     "EC2 neither attaches nor detaches the volume: detach it by force, or end its machine"},
    {Block::CodeUnreachable, "code-unreachable",
     "the code could not be fetched: check code.repository, its token and the network"},
    {Block::CodeMissing, "code-missing",
     "code.revision is not in the repository: push it, or correct job.yaml"},
    {Block::TrainerUnstartable, "trainer-unstartable",
     "the trainer could not be started: check trainer.user, .environment and .command"},
    {Block::SetupFailed, "setup-failed",
     "a command of `setup` failed: its output is in the trainer's log (`spotter logs`)"},
    {Block::NotPermitted, "not-permitted",
     "AWS refuses a permission, or its server is not trusted: add it, or mend the trust"},
    {Block::Rejected, "call-rejected", "AWS does not take a call as it is"},
    {Block::GpusAbsent, "gpus-absent",
     "the GPUs that trainer.gpus names are not seen, and no fleet would start another machine in "
     "the place of this one: see `nvidia-smi -L` and `dmesg`, or correct trainer.gpus"},
    {Block::CopyVanished, "copy-vanished",
     "the copy of the volume was made, and then was gone. If it is encrypted: the instance's "
     "role (or the service-linked role) may not use its KMS key"},
    {Block::ChangeInVain, "change-in-vain",
     "EC2 takes a change again and again, and never shows it: what else changes it?"},
    {Block::NotFree, "volume-not-free",
     "the volume cannot be filled now: another machine has it, the job is done, or moves between "
     "zones. End the job first, or run this in the volume's zone"},
    {Block::NotFilled, "volume-not-filled",
     "what `prepare:` names is not all there; what has come stays, run it again"},
});
inline constexpr auto surrender_words = std::to_array<Said<Surrender>>({
    {Surrender::None, "", ""},
    {Surrender::NoProgress, "gave-up-no-progress",
     "the trainer failed, hung twice, or could not run, as often as "
     "on_failure.attempts_without_progress allows without a new checkpoint: see its log"},
    {Surrender::HoursSpent, "gave-up-hours-spent", "limits.hours is used up"},
    {Surrender::DollarsSpent, "gave-up-dollars-spent", "limits.dollars is used up"},
    {Surrender::BlockedTooLong, "gave-up-blocked",
     "nobody acted for too long; the instance only costs money"},
    {Surrender::GpusAbsent, "gave-up-gpus-absent",
     "one machine after the other lacks the GPUs that trainer.gpus names: correct it, or the "
     "fleet's instance types and image"},
    {Surrender::StartsInVain, "gave-up-starts-in-vain",
     "the trainer was started as often as on_failure.starts_per_attempt allows without a new "
     "checkpoint: let it make one sooner, or raise that limit"},
});

template <class Why, std::size_t N>
constexpr bool is_in_order(const std::array<Said<Why>, N>& all, Why last) {
  for (std::size_t i = 0; i < N; ++i)
    if (all[i].why != static_cast<Why>(i)) return false;
  return all.back().why == last;
}
static_assert(is_in_order(wait_words, Wait::FleetUnseen) &&
              is_in_order(block_words, Block::NotFilled) &&
              is_in_order(surrender_words, Surrender::StartsInVain));

constexpr const Said<Wait>& said(Wait why) { return wait_words.at(static_cast<std::size_t>(why)); }
constexpr const Said<Block>& said(Block why) {
  return block_words.at(static_cast<std::size_t>(why));
}
constexpr const Said<Surrender>& said(Surrender why) {
  return surrender_words.at(static_cast<std::size_t>(why));
}
constexpr std::string_view words(auto why) { return said(why).words; }

// "step 500", or "write 5" where no name says the step.
std::string numbered(const Facts& facts, std::int64_t checkpoint);

// One sentence for the journal on entering the stage of `state`; empty: nothing worth saying.
std::string describe(const State& state, const Policy& policy);

}  // namespace spotter::decide
