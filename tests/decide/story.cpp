#include "tests/decide/story.hpp"

#include <gtest/gtest.h>

#include "agent/decide/step.hpp"

namespace spotter::decide {

Story::Story() {
  policy.consistency_bound = seconds(10);
  policy.has_code = true;
  policy.snapshot_dollars = 1e9;  // too dear: tests/decide/ahead_test.cpp tells of snapshots ahead
}

void Story::take(Event event) {
  const std::size_t before = state.stage.index();
  step(state, event, policy, effects);
  if (watched) watched(event, before);
  EXPECT_EQ(broken_invariant(state), nullptr) << "in " << stage();
}

void Story::sense(Happening what) { take({now, {}, std::move(what)}); }

void Story::answer(Happening what) {
  ASSERT_TRUE(state.awaited) << "nothing is awaited in " << stage();
  take({now, state.awaited, std::move(what)});
}

void Story::wake() {
  ASSERT_NE(state.wake_at, kNever) << "no wake-up is wanted in " << stage();
  now = std::max(now, state.wake_at);
  take({now, {}, Woke{}});
}

std::string Story::asked() const {
  std::string names;
  for (const Effect& effect : effects) {
    names += (names.empty() ? "" : " ") + std::string(name(effect.what));
  }
  return names;
}

void Story::adopt() {
  sense(Started{});
  HostLooked seen;
  seen.trainer = HostLooked::Trainer::Running;
  seen.mounted = kVolume;
  answer(seen);
}

void Story::adopt_on_share() {
  sense(Started{});
  HostLooked seen;
  seen.share = true;
  seen.trainer = HostLooked::Trainer::Running;
  answer(seen);
}

void Story::watch_adopted(Happening ledger, Fleet fleet) {
  adopt();
  answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  answer(FleetRead{fleet, 1.0});
  answer(std::move(ledger));
  EXPECT_EQ(stage(), "training");
}

void Story::find_finished() {
  sense(Started{});
  HostLooked seen;
  seen.share = true;
  seen.trainer = HostLooked::Trainer::Ended;
  seen.ended = {true, false};
  answer(seen);
}

void Story::boot(Zone zone) {
  sense(Started{});
  answer(HostLooked{});
  answer(IdentityRead{kMe, "p3.2xlarge", zone, "us-west-2"});
  answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0});
}

void Story::boot_to_fill() {
  policy.foreground = policy.fills = true;
  policy.blocked_retry = Duration{0};
  sense(Started{});
  answer(HostLooked{});
  answer(IdentityRead{kMe, "t3.small", "us-west-2a", "us-west-2"});
}

void Story::survey(std::vector<SeenVolume> volumes, std::vector<SeenSnapshot> snapshots) {
  while (std::holds_alternative<Waiting>(state.stage)) wake();
  answer(StorageSurveyed{{std::move(volumes), std::move(snapshots)}});
}

void Story::mount() {
  answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  answer(disk);
  answer(Mounted{});
}

void Story::mount_and_read(Ledger ledger, std::optional<std::int64_t> newest) {
  mount();
  answer(LedgerRead{ledger});
  if (stage() == "verifying") answer(CheckpointsVerified{newest, 0});
}

void Story::claim_volume() {
  survey({the_volume()});
  answer(CallAccepted{});
  survey({held(the_volume(), kMe)});
  answer(CallAccepted{});
  SeenVolume claimed = held(the_volume(), kMe);
  claimed.generation = 1;
  survey({claimed});
}

void Story::take_volume(Ledger ledger) {
  claim_volume();
  mount_and_read(ledger);
}

void Story::unmount_on_notice(Duration left, InterruptionAction action) {
  sense(NoticeSeen{action, now + left});
  sense(TrainerEnded{false, true});
  answer(LedgerWritten{});
  answer(Unmounted{});
}

void Story::finish() {
  sense(TrainerEnded{true, false});
  answer(StorageSynced{});
  answer(LedgerWritten{});
  answer(CallAccepted{});
  answer(Unmounted{});
  answer(CallAccepted{});
}

void Story::train(Ledger ledger) {
  boot();
  take_volume(ledger);
  answer(CodeFetched{});
  answer(LedgerWritten{});
  answer(TrainerStarted{});
  pass(seconds(60));  // longer than the consistency bound: others may see our claim
}

SeenVolume the_volume(Zone zone) {
  SeenVolume volume;
  volume.id = kVolume;
  volume.zone = zone;
  volume.discoverable = true;
  return volume;
}

SeenVolume held(SeenVolume volume, InstanceId by, HolderState state) {
  volume.state = VolumeState::InUse;
  volume.attachment = AttachmentState::Attached;
  volume.holder = by;
  volume.holder_state = state;
  return volume;
}

SeenVolume the_copy(Role role, std::uint32_t generation) {
  SeenVolume volume;
  volume.id = kCopy;
  volume.zone = "us-west-2b";
  volume.role = role;
  volume.parent = kVolume;
  volume.generation = generation;
  volume.from = "snap-1";
  return volume;
}

SeenSnapshot the_snapshot(SnapshotState state, std::uint32_t generation) {
  return {"snap-1", kVolume, generation, state, 100};
}

}  // namespace spotter::decide
