// The invariants of the world, whatever happened (agent/README.md, "What must hold").
#include <algorithm>

#include "tests/explore/world.hpp"

namespace spotter::explore {

namespace {

bool is_current(const Volume& volume) {
  return volume.id && volume.face.there && volume.face.discoverable;
}

bool is_there(const Volume& volume) { return volume.id && volume.face.there; }

}  // namespace

void judge_start(Node& node, const Host& host) {
  if (in_bucket()) return judge_start_in_bucket(node, host);
  const auto running = std::count_if(node.hosts.begin(), node.hosts.end(), [](const Host& it) {
    return it.alive && it.trainer.state == Trainer::State::Running;
  });
  if (running > 1) broken(node, "two trainers write one history");
  const Volume* volume = find_volume(node, host.mounted);
  if (volume->contents.newest < node.durable) {
    broken(node, "a trainer resumes from something older than the newest durable checkpoint");
  }
  judge_write(node, host, host.mounted);
}

void judge_write(Node& node, const Host& host, std::uint8_t written) {
  const auto place = static_cast<std::uint8_t>(&host - node.hosts.data() + 1);
  const Volume* volume = find_volume(node, written);
  const bool held = volume && volume->face.there && volume->face.holder == place;
  if (!held) return broken(node, "something is written to a volume that is not attached here");
  if (small_policy().fence) {
    const bool ours = node.epoch.volume == volume_id(written) && node.epoch_holder == place &&
                      node.epoch.state == decide::Epoch::State::Using;
    if (!ours) broken(node, "something is written to a volume that the epoch gives to another");
    return;
  }
  if (!volume->face.discoverable) {
    return broken(node, "something is written to a copy before it is the job's volume");
  }
  for (const Volume& other : node.volumes) {
    if (&other != volume && is_current(other)) {
      broken(node, "something is written to one of two volumes of the job");
    }
  }
}

void judge_removal(Node& node, const Volume& gone, std::uint8_t caller) {
  std::int64_t best = -1;
  bool result = false;
  bool successor = false;
  for (const Volume& other : node.volumes) {
    if (!is_there(other) || &other == &gone) continue;
    best = std::max(best, other.contents.newest);
    result = result || other.contents.result;
    const bool is_verified = other.face.role == decide::Role::Verified || is_current(other);
    const bool whole = other.contents.newest >= gone.contents.newest;
    const bool in_hand = caller == kNobody || other.face.holder == caller;
    const bool mounted =
        caller == kNobody || other.contents.blank || node.hosts[caller - 1].mounted == other.id;
    successor = successor || (is_verified && whole && in_hand && mounted);
  }
  if (gone.contents.result && !result) broken(node, "the result is deleted");
  if (best < node.durable) broken(node, "the newest durable checkpoint is deleted");
  if (small_policy().fence) {
    if (node.epoch.volume == volume_id(gone.id)) broken(node, "the epoch's volume is deleted");
    return;
  }
  if (gone.face.discoverable && !successor) {
    broken(node, "the original is deleted, and no verified copy of it is attached and mounted");
  }
}

void judge_cancel(Node& node, std::uint8_t caller) {
  const bool surrendered = caller != kNobody && node.hosts[caller - 1].state.facts.exit.surrender !=
                                                    decide::Surrender::None;
  const bool result = std::any_of(node.volumes.begin(), node.volumes.end(), [](const Volume& it) {
    return is_there(it) && it.contents.result;
  });
  if (!result && !node.committed.result && !surrendered)
    broken(node, "the fleet is cancelled, and there is no result");
}

void judge_give_back(Node& node, const Host& host) {
  const bool trains = host.trainer.state == Trainer::State::Running;
  if (host.mounted || trains) broken(node, "a machine is given back with the job on it");
}

void judge_surrender(Node& node) {
  if (node.in_vain < small_policy().attempts_without_progress) {
    broken(node, "given up though the job had not failed often enough");
  }
}

void judge_end(Node& node) {
  const auto volumes = std::count_if(node.volumes.begin(), node.volumes.end(), is_there);
  const auto snapshots = std::count_if(node.snapshots.begin(), node.snapshots.end(),
                                       [](const Snapshot& it) { return it.id && it.there; });
  const bool kept = std::any_of(node.volumes.begin(), node.volumes.end(), [&](const Volume& it) {
    return is_there(it) && it.contents.newest >= node.durable;
  });
  if (!kept && node.committed.newest < node.durable)
    broken(node, "the newest durable checkpoint is lost");
  if (!node.cancelled && !node.scaled_to_zero) broken(node, "the job stands still");
  if (!node.cancelled) return;  // given up: a person may raise the fleet again
  if (in_bucket()) return;
  const bool leaks = volumes != 1 || snapshots != 0;
  if (leaks && !node.refused) broken(node, "a volume or a snapshot is left behind at the end");
}

}  // namespace spotter::explore
