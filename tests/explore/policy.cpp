#include "tests/explore/pack.hpp"

namespace spotter::explore {

namespace {
bool has_fence = false;
bool has_bucket = false;

// Everything is a multiple of ten seconds and as short as its meaning allows: an order of two times
// that differs from this one only by being longer is no other order.
decide::Policy make_policy() {
  using std::chrono::seconds;
  decide::Policy policy;
  policy.attempts_without_progress = 2;
  policy.gpus = 1;
  policy.starts_per_attempt = 1000;  // interruptions are unlimited here, so never by their number
  policy.settled = std::chrono::hours(100);
  policy.stop_grace = seconds(20);
  policy.consistency_bound = seconds(20);
  for (Duration* call : {&policy.ec2_call,        &policy.imds_call,       &policy.look,
                         &policy.device,          &policy.inspect,         &policy.make_filesystem,
                         &policy.mount,           &policy.verify,          &policy.await_gpus,
                         &policy.fetch_code,      &policy.start_trainer,   &policy.ledger,
                         &policy.unmount,         &policy.poll_attachment, &policy.poll_snapshot,
                         &policy.poll_held,       &policy.retry_first,     &policy.retry_last,
                         &policy.blocked_retry,   &policy.restart_first,   &policy.restart_last,
                         &policy.release_reserve, &policy.release_durable, &policy.spared_after}) {
    *call = seconds(10);
  }
  policy.epoch_call = policy.commit_call = seconds(10);
  policy.fence = has_fence;
  if (has_bucket) policy.storage = decide::StorageKind::Bucket;
  policy.bring_home = policy.keep_home = policy.release_share = seconds(10);
  policy.attaching_limit = seconds(20);
  policy.blocked_limit = seconds(120);
  policy.tidy_every = policy.ledger_every = policy.snapshot_every = seconds(60);
  policy.attach_tries = 2;
  policy.tidy_limit = seconds(200);
  policy.stuck_tries = 2;
  return policy;
}

decide::Policy& policy() {
  static decide::Policy it = make_policy();
  return it;
}

}  // namespace

const decide::Policy& small_policy() { return policy(); }

void use_fence() {
  has_fence = true;
  policy() = make_policy();
}

void use_bucket() {
  has_bucket = true;
  policy() = make_policy();
}

Node first_node() {
  Node node;
  if (has_bucket) return node;
  Volume& volume = node.volumes[0];
  volume.id = 1;
  volume.face.there = true;
  volume.face.discoverable = true;
  volume.face.state = decide::VolumeState::Available;
  volume.to_format = true;
  normalise(node);
  return node;
}

}  // namespace spotter::explore
