// The host as values: what is on a disk, what runs on an instance. Copying a Disk is a snapshot.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/decide/step.hpp"
#include "tests/world/world.hpp"

namespace spotter::simulate {

struct Checkpoint {
  std::int64_t step = 0;
  bool torn = false;
};

struct Disk {
  bool blank = true;
  std::vector<Checkpoint> checkpoints;  // oldest first
  std::optional<decide::Ledger> ledger;
  bool result = false;
  double gigabytes_written = 0;  // ever, its parents' among them: what a snapshot has to copy

  // The newest whole checkpoint; -1: none.
  std::int64_t newest() const {
    std::int64_t step = -1;
    for (const Checkpoint& it : checkpoints) {
      if (!it.torn && it.step > step) step = it.step;
    }
    return step;
  }
};

struct Trainer {
  enum class Life : std::uint8_t { None, Running, Ended } life = Life::None;
  decide::TrainerEnded ended;
  VolumeId volume;
  std::int64_t step = 0;
  bool writing = false;          // a checkpoint is half written
  bool result_unsynced = false;  // the result is written, and in memory only
  bool stopping = false;         // was asked to stop, and will
  bool wanted = false;           // a checkpoint was asked for
  std::uint64_t run = 0;         // tells the events of one trainer from those of the next
};

// The agent's process. `run` tells the answers to one from those to its successor.
struct Agent {
  bool alive = false;
  decide::State state;
  std::uint64_t run = 0;
  bool watches_trainer = false;
  std::optional<std::uint64_t> announced;  // the number of the notice that it was told of
  // Local work is done one piece after the other (act/performer.cpp).
  std::optional<decide::Effect> working;
  std::uint64_t work = 0;
  std::deque<decide::Effect> waiting;
};

struct Host {
  InstanceId id;
  Zone zone;
  InstanceType type;
  bool alive = false;
  std::uint64_t boot = 0;
  Time booted;
  std::map<VolumeId, Time> devices;  // since when the node is there
  VolumeId mounted;
  bool read_only = false;
  Trainer trainer;
  Agent agent;
};

// The faults of one seed: each is switched on or off, so that rare combinations are common
// somewhere.
struct Menu {
  double call_fails = 0;  // share of EC2 calls
  double look_fails = 0;  // share of metadata and local work
  Duration lag{0};
  Duration between = std::chrono::minutes(5);  // mean time between two blows
  bool notices = false, short_notices = false, kills = false, withdrawals = false, stops = false;
  bool agent_kills = false, zones_close = false, attach_hangs = false, slow_snapshots = false;
  bool snapshot_errors = false, volume_errors = false, overlaps = false, crashes = false;
  bool late_devices = false, deaf = false, unaware = false;
};

struct Work {
  std::int64_t steps = 60;
  std::int64_t checkpoint_every = 5;
  Duration step_takes = std::chrono::seconds(10);
  bool aware = true;  // checkpoints and ends when asked to stop
};

}  // namespace spotter::simulate
