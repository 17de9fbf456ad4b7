// The host as values: what is on a disk, what runs on an instance. Copying a Disk is a snapshot.
#pragma once

#include <deque>
#include <functional>

#include "agent/decide/data_volume.hpp"
#include "agent/decide/step.hpp"
#include "agent/wire/head.hpp"
#include "tests/simulate/faults.hpp"
#include "tests/world/world.hpp"

namespace spotter::simulate {

constexpr const char* kDiscoveryKey = "Name";
constexpr const char* kDiscoveryValue = "mnist-volume";
constexpr const char* kJob = "mnist-mlp";
constexpr const char* kStorage = "Name=mnist-volume";  // spotter:storage

inline decide::EffectFailed failure(decide::Failure kind, const char* detail,
                                    bool unsettled = false) {
  decide::EffectFailed failed;
  failed.failure = kind;
  failed.unsettled = unsettled;
  failed.detail = detail;
  return failed;
}

struct Checkpoint {
  std::int64_t step = 0;
  bool torn = false;
  std::uint64_t number = 0;  // in a home in a bucket: no two are the same, whatever their step
};

struct Disk {
  enum class Content : std::uint8_t { Blank, HalfMade, Ours, Foreign } content = Content::Blank;
  std::vector<Checkpoint> checkpoints;  // oldest first
  std::optional<decide::Ledger> ledger;
  bool result = false;
  bool filled = false;           // with what `prepare:` names
  double gigabytes_written = 0;  // ever, its parents' among them: what a snapshot has to copy
  bool full = false;
  bool dirty = false;  // was not unmounted: its log is replayed at the next mount

  // The newest whole checkpoint; number 0, step -1: none.
  Checkpoint newest_whole() const {
    Checkpoint newest{-1};
    for (const Checkpoint& it : checkpoints) {
      if (!it.torn && it.step > newest.step) newest = it;
    }
    return newest;
  }
  std::int64_t newest() const { return newest_whole().step; }
  bool has_torn() const {
    for (const Checkpoint& it : checkpoints) {
      if (it.torn) return true;
    }
    return false;
  }
};

struct Trainer {
  enum class State : std::uint8_t { None, Running, Ended } state = State::None;
  decide::TrainerEnded ended;
  VolumeId volume;
  std::int64_t step = 0;
  bool writing = false;          // a checkpoint is half written
  bool result_unsynced = false;  // the result is written, and in memory only
  bool stopping = false;         // was asked to stop, and will
  bool hung = false;             // only SIGKILL helps
  bool wanted = false;           // a checkpoint was asked for
  bool asked = false;            // to stop
  bool stuck = false;            // in the kernel, on a share whose server is silent
  bool killed = false;           // while stuck: it ends when the kernel releases it
  std::uint64_t base = 0;        // the checkpoint that its next one follows from
  std::uint64_t run = 0;         // tells the events of one trainer from those of the next
  std::uint64_t write = 0;       // and the end of one checkpoint from that of one given up
};

// An agent process's knowledge of a home in a bucket, beside its state (act::Home).
struct AtHome {
  std::uint32_t epoch = 0;     // that it wrote last
  std::uint32_t held = 0;      // the one before it, where that was its own
  std::uint32_t renewing = 0;  // the lease of this epoch
  std::uint64_t renewal = 0;
  bool unsure = true;  // whether a commit without an answer will still be carried out
  Time noticed = decide::kNever;
  Time leaving{};  // when the last epoch in which it leaves was asked for
};

// The agent's process. `run` tells the answers to one from those to its successor.
struct Agent {
  bool alive = false;
  decide::State state;
  std::uint64_t run = 0;
  bool watches_trainer = false;
  std::optional<std::uint64_t> announced;  // the number of the notice that it has seen
  // Local work is done one piece after the other (service/act/performer.cpp).
  std::optional<decide::Effect> working;
  std::optional<decide::DataVolume> data;  // of the work that is done
  Time work_ends;                          // on a share: its child is ended then
  bool released = false;                   // of the share, or it was tried
  std::uint64_t work = 0;
  Time started;
  AtHome home;
  std::deque<decide::Effect> waiting;
};

// A device node: its path says nothing of the volume behind it.
struct Node {
  VolumeId volume;
  Time since;
  Device path;
};

struct Host {
  InstanceId id;
  Zone zone;
  InstanceType type;
  bool alive = false;
  std::uint64_t boot = 0;
  Time booted;
  Time paused_until;
  std::vector<Node> nodes;
  VolumeId mounted;
  VolumeId data;         // the volume of data that is mounted
  VolumeId looked_into;  // the last volume whose contents were verified here
  bool read_only = false;
  bool lacks_gpus = false;  // too few answer
  bool saw_gpus = false;    // enough of them, since the last start of a trainer
  bool shut_down = false;   // the mounted file system refuses every write until it is mounted again
  bool cut = false;         // its unmount has begun: no table shows it, and the kernel still has it
  Time left_until;          // processes of a trainer that ended are here till then
  Time refused_since = decide::kNever;  // beside them no trainer is started
  std::uint64_t refused_by = 0;         // the agent's run that this is of: another starts over
  bool given_back = false;
  bool refused_in_vain = false;  // for so long that the agent counts an attempt
  Trainer trainer;
  Agent agent;

  const Node* node_of(const VolumeId& volume) const {
    for (const Node& it : nodes) {
      if (it.volume == volume) return &it;
    }
    return nullptr;
  }
  const Node* node_at(const Device& path) const {
    for (const Node& it : nodes) {
      if (it.path == path) return &it;
    }
    return nullptr;
  }
};

// A share in the place of the job's volume. Its content is a Disk by this name, whoever mounts it.
inline const VolumeId kShare{"share"};

struct Share {
  bool folder = false;  // somebody else's mount: always there, and never released
  bool once = false;    // `spotter run`: somebody else starts it again, and owns the machines
  bool over = false;    // once: and does so no more
  bool marked = false;  // DONE stands beside the checkpoints
  Time silent_since = decide::kNever;
  Time silent_until;
  Time denied_until;
  // A child that was killed while it waited for the server: what it had asked may happen yet.
  struct Late {
    InstanceId instance;
    std::uint64_t boot = 0;
    decide::Command command;
  };
  std::vector<Late> late;
};

// The job's epoch in S3, and how S3 behaves.
struct Fence {
  std::map<VolumeId, decide::Epoch> epochs;  // by the job's first volume
  double fails = 0;                          // share of requests
  std::vector<std::pair<Time, Time>> outages;
};

// The epoch that brought or sent the files of a home in a bucket that lie on a machine, and their
// manifest.
struct Mark {
  std::uint32_t epoch = 0;
  std::string manifest;
};

struct Bucket {
  struct Object {
    std::string body, etag;
    Time written;
  };
  std::optional<Object> head;
  std::map<std::string, Disk> manifests;  // each with all that it names
  std::map<InstanceId, std::optional<Mark>> marks;
  Duration transfer{0};  // of a checkpoint
  // The checkpoint that a trainer had before, by the number of each one ever made. 0: none.
  std::vector<std::uint64_t> before{0};
};
using Found = Result<wire::SeenHead, decide::EffectFailed>;
using FoundThen = std::function<void(Host&, const Found&)>;
using HeadMaker = std::function<wire::HeadChange(const wire::SeenHead&)>;
struct HeadChanging {
  HeadMaker make;
  Duration limit;
  FoundThen then;
  std::function<bool(const Host&)> goes_on{};  // whether it is still waited for; empty: it is
};

struct Work {
  std::int64_t steps = 60;
  std::int64_t checkpoint_every = 5;
  Duration step_takes = std::chrono::seconds(10);
  bool aware = true;    // checkpoints and ends when asked to stop
  bool mute = false;    // it reports no steps and checkpoints
  bool doomed = false;  // never gets as far as a checkpoint
};

}  // namespace spotter::simulate
