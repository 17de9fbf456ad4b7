// A volume of data beside the job's own, made of a user's snapshot in each zone, and what an
// agent's work on it comes to (agent/service/act/data_volumes.cpp).
#include "agent/decide/describe.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using decide::EffectFailed;
using decide::Failure;
using decide::Happening;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Drawn from a sequence of their own: runs without data stay the same for each seed.
void Simulation::choose_data() {
  if (on_volume() && shelf_.below(4) == 0) policy_.data = 1;
}

void Simulation::make_source() {
  source_ = "snap-0da7a";
  images_[source_].content = Disk::Content::Ours;
  world::Snapshot snapshot{
      .id = source_, .volume = "vol-of-a-user", .gibibytes = 1000, .started = now_, .ends = now_};
  snapshot.state = world::SnapshotState::Completed;
  const_cast<world::Cloud&>(world_.cloud()).snapshots.add(source_, snapshot, now_, Duration{0});
}

void Simulation::begin_on_data(Host& host) {
  Agent& agent = host.agent;
  agent.data.emplace(source_, host.zone, host.id);
  at(between(milliseconds(20), milliseconds(800)),
     [this, id = host.id, run = agent.run, number = agent.work] {
       go_on_with_data(id, run, number);
     });
}

void Simulation::go_on_with_data(const InstanceId& id, std::uint64_t run, std::uint64_t number) {
  Host* its = agent_of(id, run);
  if (!its || !its->agent.working || its->agent.work != number) return;
  const decide::Effect asked = *its->agent.working;
  std::optional<Happening> outcome;
  if (now_ >= asked.deadline) {
    outcome = failure(Failure::Unavailable, "it took too long", true);
    // EC2 kept all its attachments `busy` for half an hour.
    needs_person_ = needs_person_ || menu_.has(Fault::AttachBusy);
  }
  if (!outcome) outcome = step_on_data(*its, asked.what);
  if (!outcome) {
    at(between(milliseconds(800), milliseconds(1800)),
       [this, id, run, number] { go_on_with_data(id, run, number); });
    return;
  }
  if (survives(*its, Side::AfterEffect, name(asked.what))) end_work(*its, *outcome);
}

std::optional<Happening> Simulation::step_on_data(Host& host, const decide::Command& command) {
  if (!host.agent.data) host.agent.data.emplace(source_, host.zone, host.id);
  const auto* release = std::get_if<decide::ReleaseData>(&command);
  return release ? release_data(host, release->remove) : bring_data(host);
}

// One call: refused, throttled, lost before or after it was carried out. nullopt: it was done.
std::optional<Happening> Simulation::call_for_data(const char* action, std::function<void()> call) {
  if (const auto error = refused(action)) return *error;
  const std::uint64_t kind = fires(menu_.call_fails) ? dice_.below(3) : 3;
  if (kind >= 2) call();
  if (kind == 3) return std::nullopt;
  return failure(Failure::Unavailable, "RequestLimitExceeded");
}

std::optional<Happening> Simulation::bring_data(Host& host) {
  using Kind = decide::DataStep::Kind;
  if (host.data) return decide::Mounted{};  // whatever EC2 shows of it
  decide::DataVolume& data = *host.agent.data;
  if (const auto failed = call_for_data("DescribeVolumes", [] {})) return failed;
  const decide::DataStep step = data.next(data_seen(), now_, policy_);
  switch (step.kind) {
    case Kind::Wait:
      return std::nullopt;
    case Kind::Make:
      return call_for_data("CreateVolume", [&] { make_data(host, step.attempt); });
    case Kind::Attach:
      return call_for_data("AttachVolume", [&] { attach_data(host, step); });
    case Kind::Detach:
      if (host.data == step.volume) broken("the detach of mounted data is asked for");
      return call_for_data("DetachVolume", [&] {
        (void)world_.volumes(now_).detach({step.volume, host.id, {}, false});
      });
    case Kind::Use:
      return mount_data(host, step.volume);
    case Kind::Vanished:
      return failure(Failure::Rejected, "it vanished");
  }
  return std::nullopt;
}

void Simulation::make_data(Host& host, std::uint32_t attempt) {
  world::CreateVolume request;
  request.zone = host.zone;
  request.snapshot = source_;
  request.type = "gp3";
  request.tags = {{"spotter:job", kJob}, {"spotter:role", "data"}};
  request.client_token = "spotter-data-" + host.id.str() + "-" + std::to_string(attempt);
  const auto made = world_.volumes(now_).create(request);
  if (made) return host.agent.data->made(made->id, now_);
  if (made.error().code == "IdempotentParameterMismatch") host.agent.data->burned();
}

void Simulation::attach_data(Host& host, const decide::DataStep& step) {
  const std::string device = std::string("/dev/sd") + static_cast<char>('p' - step.attempt % 10);
  const auto attached = world_.volumes(now_).attach({step.volume, host.id, device});
  say(host.id.view(), "      EC2: data ", step.volume, attached ? " attaching" : " refused");
  if (!attached) host.agent.data->refused();
}

std::optional<Happening> Simulation::mount_data(Host& host, const VolumeId& volume) {
  const Node* node = host.node_of(volume);
  if (!node || node->since > now_ + policy_.device) {
    host.agent.data->absent(volume);
    return std::nullopt;
  }
  if (node->since > now_) return std::nullopt;
  host.data = volume;
  world_.set_mounted(volume, true, now_);
  say(host.id.view(), "data ", volume, " is mounted");
  return decide::Mounted{};
}

std::optional<Happening> Simulation::release_data(Host& host, bool remove) {
  if (host.trainer.state == Trainer::State::Running && !host.trainer.killed) {
    broken("the data is taken from under a trainer");
  }
  if (host.data) world_.set_mounted(host.data, false, now_);
  host.data = {};
  if (const auto failed = call_for_data("DescribeVolumes", [] {})) return failed;
  bool held = false;
  for (const decide::SeenVolume& volume : data_seen()) {
    const bool ours = volume.holder == host.id;
    held = held || ours;
    if (ours && volume.attachment != decide::AttachmentState::Detaching) {
      const auto failed = call_for_data("DetachVolume", [&] {
        (void)world_.volumes(now_).detach({volume.id, host.id, {}, false});
      });
      if (failed) return failed;
    } else if (remove && is_free(volume)) {
      const auto failed =
          call_for_data("DeleteVolume", [&] { (void)world_.volumes(now_).remove(volume.id); });
      if (failed) return failed;
    }
  }
  if (held && remove) return std::nullopt;
  return decide::Unmounted{};
}

// The trainer finds its data: what was made of the snapshot, attached here.
void Simulation::judge_data(const Host& host) {
  const world::Volume* volume = host.data ? world_.cloud().volumes.find(host.data) : nullptr;
  const bool there = volume && volume->attachment && volume->attachment->instance == host.id &&
                     volume->snapshot == source_;
  if (!there) broken("a trainer is started without its data");
}

}  // namespace spotter::simulate
