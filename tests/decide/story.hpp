// A story: the pure core, events written by hand, and what it then does. Reads as the journal
// would.
#pragma once

#include <functional>
#include <vector>

#include "agent/decide/describe.hpp"
#include "agent/decide/step.hpp"

namespace spotter::decide {

class Story {
 public:
  Story();

  Policy policy;
  State state;
  Effects effects;
  Time now{Duration(1'000'000)};
  // After each step, with the index of the stage before it.
  std::function<void(const Event&, std::size_t before)> watched;

  // Unasked: a notice, the trainer's end, ...
  void sense(Happening what);
  // The answer to what is awaited. Fails the test when nothing is.
  void answer(Happening what);
  // Lets time pass until the core wants to be woken, and wakes it.
  void wake();
  void pass(Duration duration) { now += duration; }

  std::string_view stage() const { return name(state.stage); }
  // "attach-volume", or "" when the last step asked for nothing.
  std::string asked() const;
  template <class Command>
  const Command* did() const {
    for (const Effect& effect : effects) {
      if (const auto* command = std::get_if<Command>(&effect.what)) return command;
    }
    return nullptr;
  }

  // Every step goes through here: the invariants hold after each.
  void take(Event event);

  // --- chapters ---
  void adopt();           // a trainer of an earlier session runs on the volume
  void adopt_on_share();  // the same on a share, or in a home
  // The first is watched, after its ledger was read, or was not: EffectFailed.
  void watch_adopted(Happening ledger = LedgerRead{},
                     Fleet fleet = {FleetKind::SpotFleet, "sfr-1"});
  void find_finished();                 // one ended well meanwhile, on a share or in a home
  void boot(Zone zone = "us-west-2a");  // up to the first look at the storage
  void boot_to_fill();                  // the same of `spotter prepare` and `spotter fetch`
  void survey(std::vector<SeenVolume> volumes, std::vector<SeenSnapshot> snapshots = {});
  void claim_volume();  // vol-1, in our zone: attached, claimed, and the claim seen
  void mount();         // its device found, inspected, mounted
  void mount_and_read(Ledger ledger = {}, std::optional<std::int64_t> newest = std::nullopt);
  void take_volume(Ledger ledger = {});  // vol-1, in our zone: attached, claimed, mounted, read
  void train(Ledger ledger = {});        // boot to training on it
  // A notice, `left` before its deadline: the trainer ends, the ledger is written, nothing mounted.
  void unmount_on_notice(Duration left, InterruptionAction action = InterruptionAction::Terminate);
  void finish();  // the trainer ends well: the result is durable, marked, the volume detached
};

inline const InstanceId kMe = "i-me";
inline const VolumeId kVolume = "vol-1";
inline const VolumeId kCopy = "vol-2";

SeenVolume the_volume(Zone zone = "us-west-2a");  // available, carries the discovery tag
SeenVolume held(SeenVolume volume, InstanceId by, HolderState state = HolderState::Alive);
SeenVolume the_copy(Role role, std::uint32_t generation = 0);  // of kVolume, in us-west-2b
SeenSnapshot the_snapshot(SnapshotState state, std::uint32_t generation = 0);

}  // namespace spotter::decide
