// Converts a volume of EC2's answer for the core.
#pragma once

#include <memory>
#include <set>

#include "agent/aws/aws_client.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/config/job.hpp"
#include "agent/config/secrets.hpp"
#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/decide/survey.hpp"
#include "agent/service/act/at_s3.hpp"

namespace spotter::act {

// Does not fill in whether its holder runs.
decide::SeenVolume seen(const wire::Volume& volume, const config::Job& job);

// Terminated is final. An instance that is not listed may be new, or have ended more than an hour
// ago.
decide::HolderState state_of(const InstanceId& holder,
                             const std::vector<wire::Instance>& instances);

// True for a volume or snapshot of another job, or of a namesake, whatever else it is tagged with.
// One with job.yaml's tag is ours, even if it was made while job.yaml named another tag.
bool is_foreign(const wire::Tags& tags, const config::Job& job);

// Also true for a free volume of data without an owner's tag, as earlier versions made them: it may
// be a namesake's, and volumes that are seen are used and deleted.
bool is_foreign(const wire::Volume& volume, const config::Job& job);

// A failed call as the core represents it. `detail` keeps AWS's code and message.
decide::EffectFailed as_failure(const CallError& error);

// Accepted, or the failure.
template <class T>
decide::Happening accepted(const Result<T, CallError>& result) {
  if (!result) return as_failure(result.error());
  return decide::CallAccepted{};
}

// EC2 effects. Each on() returns the one happening that answers it, and never throws; the caller
// adds the effect's id.
class Cloud {
 public:
  Cloud(AwsClient& aws, const config::Job& job) : aws_(aws), job_(job) {
    if (const auto place = job.fenced_at()) fence_ = std::make_unique<Fence>(*place);
  }

  using Answer = asio::awaitable<decide::Happening>;

  Answer on(decide::SurveyStorage effect, Duration limit);
  // True for a volume that was made of a snapshot, as the last survey has it, and that EBS does not
  // load by itself at a rate.
  bool is_cold(const VolumeId& volume) const { return cold_.contains(volume); }
  // Tells which of a sweep's `count` experiments with volumes have theirs in this zone. Empty:
  // unknown.
  asio::awaitable<std::vector<bool>> experiments_in(Zone zone, std::size_t count, Duration limit);
  // The fleet (fleet.cpp).
  Answer on(decide::ReadFleet effect, Duration limit);  // and what the instance costs
  // Both do the same before to the fleet that the tag spotter:beside of this one names.
  Answer on(const decide::CancelFleet& it, Duration limit) {
    return to_both(it.fleet, &Cloud::cancel_one, limit);
  }
  Answer on(const decide::ScaleFleetToZero& it, Duration limit) {
    return to_both(it.fleet, &Cloud::scale_one_to_zero, limit);
  }
  // The tag of `spotter watch` of the job's own fleet, which is this one or the one beside it;
  // empty: there is none.
  asio::awaitable<Result<std::string, CallError>> watchers_tag(Fleet fleet, Duration limit);
  // Completes the lifecycle hook that holds this instance, if any does.
  Answer on(decide::CompleteLifecycle effect, Duration limit);
  // The number of its instances that run or are pending. 0: unknown.
  asio::awaitable<std::uint32_t> count_instances(Fleet fleet, Duration limit);
  // Ends this instance. `needed`: without a replacement; the fleet's target becomes so many, and
  // the fleet, which would choose itself, ends none of the others.
  Answer leave_fleet(Fleet fleet, InstanceId self, std::optional<std::uint32_t> needed,
                     Duration limit);
  Answer on(const decide::GiveBackInstance& it, Duration limit) {
    return leave_fleet({}, it.instance, std::nullopt, limit);
  }
  // The same, of a fleet whose other instances have work: its target becomes one less than it was
  // at the first call, however often this is called.
  Answer on(decide::LeaveFleet effect, Duration limit);
  // Volumes and snapshots.
  Answer on(decide::AttachVolume effect, Duration limit);
  Answer on(const decide::DetachVolume& it, Duration limit) {
    return carry_out(wire::DetachVolume{it.volume, it.instance}, limit);
  }
  Answer on(const decide::ClaimVolume& it, Duration limit) {
    return set_tags(it.volume, tags_of_claim(it.generation), limit);
  }
  Answer on(decide::CreateSnapshot effect, Duration limit);
  Answer on(decide::CreateVolume effect, Duration limit);
  Answer on(const decide::MarkVerified& it, Duration limit) {
    return set_tags(it.volume, {{tag::role, "verified"}}, limit);
  }
  Answer on(const decide::PromoteVolume& it, Duration limit);
  Answer on(const decide::MarkDone& it, Duration limit) {
    return set_tags(it.volume, {{tag::done, "true"}}, limit);
  }
  Answer on(const decide::MarkPrepared& it, Duration limit);
  // REQUIRES: the job has a fence.
  Answer on(const decide::WriteEpoch& it, Duration limit) { return fence_->write(it.epoch, limit); }
  Answer on(const decide::DeleteVolume& it, Duration limit) {
    return carry_out(wire::DeleteVolume{it.volume}, limit);
  }
  Answer on(const decide::DeleteSnapshot& it, Duration limit) {
    return carry_out(wire::DeleteSnapshot{it.snapshot}, limit);
  }

 private:
  void add_fence(wire::Tags& to) const;
  wire::Tags tags_of_claim(std::uint32_t generation) const;
  void add_line(const VolumeId& lineage, std::uint32_t moves, wire::Tags& to) const;
  template <class Request>
  Answer carry_out(Request request, Duration limit) {
    const auto result = co_await aws_.call(std::move(request), limit);
    co_return accepted(result);
  }
  Answer set_tags(const VolumeId& volume, wire::Tags tags, Duration limit) {
    return carry_out(wire::CreateTags{{volume.str()}, std::move(tags)}, limit);
  }
  asio::awaitable<Result<wire::FleetStatus, CallError>> status_of(Fleet fleet, Duration limit);
  // Dollars an hour, spot or on demand; 0: unknown.
  asio::awaitable<double> price_of(wire::Instance self, Duration limit);
  asio::awaitable<Result<Fleet, CallError>> fleet_beside(Fleet fleet, Duration limit);
  Answer to_both(Fleet fleet, Answer (Cloud::*what)(Fleet, Duration), Duration limit);
  Answer cancel_one(Fleet fleet, Duration limit);
  Answer scale_one_to_zero(Fleet fleet, Duration limit);
  Answer lower_target(Fleet fleet, std::uint32_t needed, Duration limit);
  // The instances of a fleet; none of no fleet.
  using Fellows = Result<wire::Page<wire::Instance>, CallError>;
  Answer count_earlier(decide::FleetRead read, wire::Instance self, Fellows fellows,
                       Duration limit);

  AwsClient& aws_;
  const config::Job& job_;
  std::unique_ptr<Fence> fence_;              // where the job has one
  std::optional<std::uint32_t> places_left_;  // see LeaveFleet
  std::set<VolumeId> cold_;
};

// Reads a secret's value by its reference in job.yaml.

// A failure names the reference, never the value. Files and variables are read at once; an SSM
// parameter takes `limit` at most.
asio::awaitable<Result<std::string, decide::EffectFailed>> read_secret(
    AwsClient& aws, config::SecretReference reference, Duration limit);

}  // namespace spotter::act
