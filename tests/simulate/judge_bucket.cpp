// The invariants of a home in a bucket: of each version of its head, when S3 takes it, and of what
// the head names. Machines may stand still and wake up, and two may train at once: only what is
// committed counts.
#include <algorithm>

#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;
using State = decide::Epoch::State;

namespace {

// A lease is renewed if neither the machine nor S3 was out of order for so long.
constexpr Duration kInOrder = minutes(6);
// The time that a commit takes beside the checkpoint itself.
constexpr Duration kRequests = seconds(10);

// Was the one made by a trainer that had the other?
bool follows(const Bucket& bucket, std::uint64_t one, std::uint64_t other) {
  while (one > other) one = bucket.before[one];
  return one == other;
}

// Finds a commit of steps that a machine trained while it did not have the home. Empty: it is none.
std::string forked(const Bucket& bucket, const wire::Head& before, const wire::Head& after) {
  const auto had = bucket.manifests.find(before.manifest);
  const auto has = bucket.manifests.find(after.manifest);
  if (had == bucket.manifests.end() || has == bucket.manifests.end()) return {};
  const Checkpoint older = had->second.newest_whole();
  const Checkpoint newer = has->second.newest_whole();
  if (follows(bucket, newer.number, older.number)) return {};
  return "step " + std::to_string(newer.step) + " is committed after step " +
         std::to_string(older.step) + ", and does not follow from it";
}

}  // namespace

wire::Head Simulation::head_now() const {
  if (!bucket_.head) return {};
  return wire::parse_head(bucket_.head->body).value_or(wire::Head{});
}

// The state of the job that is committed in the bucket; nullptr: nothing is committed.
const Disk* Simulation::committed() const {
  const auto found = bucket_.manifests.find(head_now().manifest);
  return found == bucket_.manifests.end() ? nullptr : &found->second;
}

// `before`: number 0: there was none.
void Simulation::judge_head(const wire::Head& before, const wire::Head& after,
                            const InstanceId& author) {
  const decide::Epoch& was = before.epoch;
  const decide::Epoch& is = after.epoch;
  if (was.state == State::Done && was.number != 0)
    return broken("the head of a job that is done is written again");
  if (is.number != was.number) {
    if (is.number != was.number + 1) broken("an epoch follows that is not the next one");
    if (before.manifest != after.manifest) broken("a new epoch changes what is committed");
    const bool taken = was.number != 0 && was.state == State::Using && is.holder != was.holder;
    if (taken) judge_taken(was);
    if (is.holder != author) broken("an epoch is written for another machine");
  } else if (was.holder != author || was.state != State::Using || is.state != State::Using ||
             is.holder != was.holder) {
    broken("a machine commits to a home that it does not have");
  }
  judge_manifests();
  judge_progress("the head is written");
  if (const std::string fork = forked(bucket_, before, after); !fork.empty()) broken(fork);
  if (const Disk* there = committed()) durable_ = std::max(durable_, there->newest());
  if (is.state == State::Released) judge_left(author, was.number);
  if (is.state != State::Done) return;
  if (was.holder != author || was.state != State::Using)
    broken("a machine says done of a home that it does not have");
  const Disk* there = committed();
  if (!there || !there->result) broken("done is said before the result is in the bucket");
}

void Simulation::judge_manifests() {
  if (!head_now().manifest.empty() && !committed())
    broken("the home's head names what is not in the bucket");
}

void Simulation::judge_progress(const char* what) {
  const Disk* there = committed();
  const std::int64_t newest = there ? there->newest() : -1;
  if (newest < durable_) {
    broken(std::string(what) + ": step " + std::to_string(durable_) +
           " was committed; the newest left is " + std::to_string(newest));
  }
}

// S3 works now, and has worked for kInOrder.
bool Simulation::s3_works() const {
  if (now_ > calm_ + kInOrder) return true;
  return fence_.fails <= 0 &&
         std::none_of(fence_.outages.begin(), fence_.outages.end(), [&](const auto& it) {
           return it.first <= now_ && now_ <= it.second + kInOrder;
         });
}

// A machine that leaves after a notice has brought to the bucket all that was finished here, where
// the way there is known to be wide enough; and where it is not, or S3 has its troubles, it tries
// to the end.
void Simulation::judge_left(const InstanceId& author, std::uint32_t epoch) {
  const Host* its = host_named(author);
  if (!its || !its->agent.alive || !its->agent.state.facts.exit.notice) return;
  const std::optional<Mark>& mark = bucket_.marks[its->id];
  const AtHome& home = its->agent.home;
  const bool brought = mark && mark->epoch == epoch;
  const bool had = home.epoch == epoch && home.held != 0 && mark && mark->epoch == home.held;
  if (!brought && !had) return;  // what is here is of an earlier one
  const auto disk = disks_.find(its->mounted);
  const bool awake = now_ > its->paused_until + kInOrder;
  if (!awake || disk == disks_.end() || disk->second.full || its->shut_down) return;
  const Disk* there = committed();
  if (disk->second.newest() <= (there ? there->newest() : -1)) return;
  const decide::Facts::Exit& exit = its->agent.state.facts.exit;
  const Time deadline =
      std::min(exit.notice->deadline, exit.leave ? exit.leave_by : decide::kNever);
  // A second notice may move the deadline while the write that ends it all is under way.
  const Time since = home.noticed;
  if (since != decide::kNever && since >= home.leaving) return;
  if (brought && deadline - now_ > kRequests)
    broken("a machine leaves early, and its newest checkpoint stays");
  const Duration upload = bucket_.transfer * 3 / 2 + kRequests;
  const Duration known = its->agent.state.facts.home.upload * 5 / 4;
  const bool fits = std::max<Duration>(policy_.release_reserve, known) >= upload;
  const bool was_time = since != decide::kNever && deadline - since > upload + seconds(30);
  if (fits && was_time && s3_works())
    broken("a machine leaves in time, and its newest checkpoint is not in the bucket");
}

// EC2 may show an instance as stopped for a while after it was started again; and a lease is not
// renewed by who stands still, nor while S3 answers nobody.
void Simulation::judge_taken(const decide::Epoch& from) {
  const Host* its = host_named(from.holder);
  if (!its || !its->alive || !its->agent.alive) return;
  const bool awake = now_ > its->paused_until + kInOrder;
  const bool settled = now_ > its->agent.started + kInOrder;
  const bool renews = its->agent.home.renewing == from.number;
  if (s3_works() && awake && settled && renews)
    broken("the home is taken from a machine that works");
}

// A session begins with all that is committed, as long as the home is its own.
void Simulation::judge_start_at_home(const Host& host) {
  const wire::Head head = head_now();
  if (!wire::is_held(head, {head.epoch.number, self_of(host)})) return;
  const std::int64_t here = disks_[host.mounted].newest();
  if (here < durable_) {
    broken("a committed checkpoint is lost: step " + std::to_string(durable_) +
           " was, the trainer resumes at " + std::to_string(here));
  }
}

void Simulation::judge_in_bucket(const decide::Command& command) {
  using namespace decide;
  const bool of_fleet = std::holds_alternative<ReadFleet>(command) ||
                        std::holds_alternative<CancelFleet>(command) ||
                        std::holds_alternative<GiveBackInstance>(command) ||
                        std::holds_alternative<ScaleFleetToZero>(command);
  if (of_fleet && share_.once) broken("a run of somebody else's has to do with a fleet");
  const bool of_volume =
      std::holds_alternative<decide::AttachVolume>(command) ||
      std::holds_alternative<decide::DetachVolume>(command) ||
      std::holds_alternative<ClaimVolume>(command) ||
      std::holds_alternative<decide::CreateSnapshot>(command) ||
      std::holds_alternative<decide::CreateVolume>(command) ||
      std::holds_alternative<MarkDone>(command) || std::holds_alternative<FindDevice>(command) ||
      std::holds_alternative<decide::Mount>(command) || std::holds_alternative<Unmount>(command);
  if (of_volume) broken("a job in a bucket asks for a volume");
}

}  // namespace spotter::simulate
