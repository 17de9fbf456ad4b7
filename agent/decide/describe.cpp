#include "agent/decide/describe.hpp"

#include <array>

namespace spotter::decide {
namespace {

// In the order of the variants' alternatives (tests/decide checks that none is missing).
constexpr std::array<std::string_view, std::variant_size_v<Stage>> kStages = {"booting",
                                                                              "looking-around",
                                                                              "identifying",
                                                                              "reading-fleet",
                                                                              "surveying",
                                                                              "waiting",
                                                                              "blocked",
                                                                              "attaching",
                                                                              "claiming",
                                                                              "finding-device",
                                                                              "inspecting",
                                                                              "formatting",
                                                                              "mounting",
                                                                              "reading-account",
                                                                              "verifying",
                                                                              "snapshotting",
                                                                              "creating-candidate",
                                                                              "attesting",
                                                                              "committing",
                                                                              "promoting",
                                                                              "discarding",
                                                                              "counting-attempt",
                                                                              "fetching-code",
                                                                              "starting-trainer",
                                                                              "training",
                                                                              "stopping",
                                                                              "closing-account",
                                                                              "unmounting",
                                                                              "detaching",
                                                                              "released",
                                                                              "marking-done",
                                                                              "tidying",
                                                                              "cancelling-fleet",
                                                                              "scaling-to-zero",
                                                                              "finished",
                                                                              "gave-up",
                                                                              "leaving"};

constexpr std::array<std::string_view, std::variant_size_v<Happening>> kHappenings = {
    "started",
    "woke",
    "notice-seen",
    "notice-withdrawn",
    "rebalance-recommended",
    "trainer-progressed",
    "trainer-resumed",
    "checkpoint-made",
    "trainer-ended",
    "stop-requested",
    "host-looked",
    "identity-read",
    "fleet-read",
    "storage-surveyed",
    "call-accepted",
    "snapshot-started",
    "volume-created",
    "device-found",
    "disk-inspected",
    "filesystem-made",
    "mounted",
    "unmounted",
    "ledger-read",
    "ledger-written",
    "checkpoints-verified",
    "code-fetched",
    "trainer-started",
    "effect-failed"};

constexpr std::array<std::string_view, std::variant_size_v<Command>> kCommands = {
    "look-at-host",        "read-identity",   "read-fleet",
    "survey-storage",      "attach-volume",   "detach-volume",
    "claim-volume",        "create-snapshot", "create-volume",
    "mark-verified",       "promote-volume",  "mark-done",
    "delete-volume",       "delete-snapshot", "cancel-fleet",
    "scale-fleet-to-zero", "find-device",     "inspect-disk",
    "make-filesystem",     "mount",           "unmount",
    "read-ledger",         "write-ledger",    "verify-checkpoints",
    "fetch-code",          "start-trainer",   "stop-trainer",
    "kill-trainer",        "abandon",         "exit"};

std::string seconds_text(Duration duration) {
  return std::to_string(std::chrono::duration_cast<seconds>(duration).count()) + " s";
}

std::string describe_training(const Facts& facts) {
  std::string text = "training on " + facts.volume.str();
  if (facts.checkpoint_step >= 0) {
    text += ", newest checkpoint: step " + std::to_string(facts.checkpoint_step);
  }
  return text;
}

std::string describe_stopping(const Stopping& stage, const Facts& facts) {
  if (stage.killed) return "the trainer did not end in time and is killed";
  if (facts.surrender != Surrender::None) return std::string(words(facts.surrender));
  return "the trainer is asked to checkpoint and end";
}

}  // namespace

std::string_view name(const Stage& stage) { return kStages[stage.index()]; }
std::string_view name(const Happening& happening) { return kHappenings[happening.index()]; }
std::string_view name(const Command& command) { return kCommands[command.index()]; }

std::string_view words(Wait why) {
  switch (why) {
    case Wait::Retry:
      return "a call failed; looking again soon";
    case Wait::VolumeHeld:
      return "the volume is attached to another instance; waiting for it";
    case Wait::VolumeChanging:
      return "the volume is changing its state";
    case Wait::SnapshotPending:
      return "the snapshot is not completed yet";
    case Wait::CandidateSettling:
      return "the copy is verified; making sure nobody uses the original";
    case Wait::CommitSettling:
      return "the original is gone; making sure which copy follows it";
    case Wait::TrainerRestart:
      return "the trainer failed; starting it again after a pause";
  }
  return "";
}

std::string_view words(Block why) {
  switch (why) {
    case Block::NoVolume:
      return "no volume carries the tag of storage.ebs.tag: create one in the region, or correct "
             "the "
             "tag in job.yaml";
    case Block::TwoVolumes:
      return "more than one volume carries the tag of storage.ebs.tag: remove the tag from all but "
             "one";
    case Block::VolumeBroken:
      return "EC2 reports the volume in state `error`: restore it from a snapshot and move the tag";
    case Block::CopyDamaged:
      return "the copy of the volume lacks the newest checkpoint; the original is kept. Check the "
             "checkpoints on the original";
    case Block::BlankNotOurs:
      return "the volume is blank, and not marked as ours to format: check that it is the right "
             "one, "
             "then tag it spotter:format=blank";
    case Block::DiskForeign:
      return "the disk holds something other than the file system that job.yaml names; nothing was "
             "written to it. Correct storage.ebs.filesystem or the tag";
    case Block::FilesystemDamaged:
      return "the file system is damaged; nothing was written to it. Repair it by hand "
             "(xfs_repair, "
             "e2fsck) or restore a snapshot";
    case Block::MountFailed:
      return "the file system could not be used";
    case Block::DeviceAbsent:
      return "the volume is attached, but its device did not appear: see `lsblk -o NAME,SERIAL`";
    case Block::CodeUnreachable:
      return "the code could not be fetched: check code.repository, its token and the network";
    case Block::CodeMissing:
      return "code.revision is not in the repository: push it, or correct job.yaml";
    case Block::TrainerUnstartable:
      return "the trainer could not be started: check trainer.user, trainer.environment and "
             "trainer.command";
    case Block::NotPermitted:
      return "AWS refuses a call for lack of permission: add it to the instance's role";
  }
  return "";
}

std::string_view words(Surrender why) {
  switch (why) {
    case Surrender::None:
      return "";
    case Surrender::NoProgress:
      return "the job was started as often as on_failure.attempts_without_progress allows without "
             "a "
             "new checkpoint: see the trainer's log";
    case Surrender::HoursSpent:
      return "limits.hours is used up";
    case Surrender::DollarsSpent:
      return "limits.dollars is used up";
    case Surrender::BlockedTooLong:
      return "nobody acted for too long; the instance only costs money";
  }
  return "";
}

std::string describe(const State& state, const Policy& policy) {
  const Facts& facts = state.facts;
  const std::string volume = facts.volume.str();
  if (const auto* stage = std::get_if<Waiting>(&state.stage)) return std::string(words(stage->why));
  if (const auto* stage = std::get_if<Blocked>(&state.stage)) {
    std::string text = "blocked: " + std::string(words(stage->why));
    if (stage->detail) text += " (" + stage->detail.str() + ")";
    return text + ". Looking again in " + seconds_text(policy.blocked_retry);
  }
  if (std::holds_alternative<Training>(state.stage)) return describe_training(facts);
  if (const auto* stage = std::get_if<Stopping>(&state.stage))
    return describe_stopping(*stage, facts);
  if (std::holds_alternative<Released>(state.stage)) {
    return "released: nothing of the job is held here any more, newest checkpoint: step " +
           std::to_string(facts.checkpoint_step);
  }
  if (const auto* stage = std::get_if<Committing>(&state.stage)) {
    return "the copy " + volume + " is verified; deleting the original " + stage->parent.str();
  }
  if (std::holds_alternative<Finished>(state.stage)) return "finished: the result is durable";
  if (std::holds_alternative<GaveUp>(state.stage)) {
    return "gave up: " + std::string(words(facts.surrender));
  }
  return {};
}

}  // namespace spotter::decide
