// A whole session, again and again: boot, attach, claim, mount, train (a thousand progress reports,
// ten checkpoints), a notice, the final snapshot, release. Every event is a transition; Google
// Benchmark prints how many a second ("items_per_second").
#include <benchmark/benchmark.h>

#include <vector>

#include "agent/decide/step.hpp"

namespace {

using namespace spotter;
using namespace spotter::decide;

SeenVolume volume(bool held, std::uint32_t generation) {
  SeenVolume seen;
  seen.id = "vol-0123456789abcdef0";
  seen.zone = "us-west-2a";
  seen.discoverable = true;
  seen.generation = generation;
  if (!held) return seen;
  seen.state = VolumeState::InUse;
  seen.attachment = AttachmentState::Attached;
  seen.holder = "i-0123456789abcdef0";
  return seen;
}

StorageSurveyed survey(bool held, std::uint32_t generation) {
  StorageSurveyed surveyed;
  surveyed.survey.volumes.push_back(volume(held, generation));
  return surveyed;
}

std::vector<Happening> session() {
  DiskInspected disk;
  disk.matches = true;
  std::vector<Happening> all = {
      Started{},
      HostLooked{},
      IdentityRead{"i-0123456789abcdef0", "p3.2xlarge", "us-west-2a", "us-west-2"},
      FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0},
      survey(false, 0),
      CallAccepted{},
      Woke{},
      survey(true, 0),
      CallAccepted{},
      survey(true, 1),
      DeviceFound{"/dev/nvme1n1"},
      disk,
      Mounted{},
      LedgerRead{},
      CheckpointsVerified{},
      LedgerWritten{},
      TrainerStarted{}};
  for (int step = 1; step <= 1000; ++step) {
    all.push_back(TrainerProgressed{step});
    if (step % 100 == 0) all.push_back(CheckpointMade{step});
  }
  NoticeSeen notice;
  notice.deadline = Time(hours(2));
  for (const Happening& what :
       std::vector<Happening>{notice, CheckpointMade{1001}, TrainerEnded{false, true},
                              LedgerWritten{}, Unmounted{}, SnapshotStarted{}, CallAccepted{}}) {
    all.push_back(what);
  }
  return all;
}

void BM_WholeSession(benchmark::State& bench) {
  const std::vector<Happening> happenings = session();
  std::vector<Event> events;
  for (const Happening& what : happenings) events.push_back({Time(hours(1)), {}, what});
  const std::size_t first_answer = Happening(HostLooked{}).index();
  const Policy policy;
  Effects effects;
  for (auto _ : bench) {
    State state;
    for (Event& event : events) {
      if (std::holds_alternative<Woke>(event.what)) event.at = state.wake_at;
      event.effect = event.what.index() >= first_answer ? state.awaited : EffectId{};
      step(state, event, policy, effects);
      if (const char* broken = broken_invariant(state)) bench.SkipWithError(broken);
    }
    if (!std::holds_alternative<Released>(state.stage)) bench.SkipWithError("the story went wrong");
    benchmark::DoNotOptimize(state);
  }
  bench.SetItemsProcessed(static_cast<std::int64_t>(bench.iterations() * events.size()));
}
BENCHMARK(BM_WholeSession);

}  // namespace

BENCHMARK_MAIN();
