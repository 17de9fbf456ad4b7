// Finds the instance's fleet and its price, and ends fleets. Spot Fleet, EC2 Fleet and Auto Scaling
// groups have different calls for that.
#include <algorithm>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/decide/policy.hpp"
#include "agent/service/act/cloud.hpp"

namespace spotter::act {
namespace {

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-fleet-tags.html and relatives: the
// tags that AWS puts on the instances of a fleet.
struct FleetTag {
  const char* key;
  FleetKind kind;
};
// A group with several types launches by a fleet of its own: the group's tag goes first.
constexpr FleetTag kFleetTags[] = {{"aws:ec2spot:fleet-request-id", FleetKind::SpotFleet},
                                   {"aws:autoscaling:groupName", FleetKind::AutoScalingGroup},
                                   {"aws:ec2:fleet-id", FleetKind::Ec2Fleet}};

Fleet fleet_of(const wire::Tags& tags) {
  for (const FleetTag& entry : kFleetTags) {
    const auto found = tags.find(entry.key);
    if (found == tags.end()) continue;
    if (FleetId::fits(found->second)) return Fleet{entry.kind, FleetId(found->second)};
  }
  return {};
}

// A stopped instance that is started again has a new launch time (API_Instance.html), and counts as
// new.
bool is_earlier(const wire::Instance& other, const wire::Instance& self) {
  const bool gone =
      other.state == wire::InstanceState::Terminated || other.state == wire::InstanceState::Stopped;
  if (gone || other.id == self.id) return false;
  if (!other.launch_time || !self.launch_time) return true;
  return std::tie(*other.launch_time, other.id) < std::tie(*self.launch_time, self.id);
}

// Instances that may be of the fleet of `self`, though no tag says so yet: of those that were
// launched long before, the tags would be there.
std::uint32_t count_untagged(const std::vector<wire::Instance>& all, const wire::Instance& self) {
  return static_cast<std::uint32_t>(std::ranges::count_if(all, [&](const wire::Instance& other) {
    const bool long_ago = other.launch_time && self.launch_time &&
                          *self.launch_time - *other.launch_time > decide::Policy().fleet_tags;
    return !long_ago && fleet_of(other.tags).kind == FleetKind::None && is_earlier(other, self);
  }));
}

// EC2 shows an instance for about an hour after its end.
bool last_shut_down(const std::vector<wire::Instance>& all, const wire::Instance& self) {
  const wire::Instance* last = nullptr;
  for (const wire::Instance& it : all)
    if (it.id != self.id && it.launch_time <= self.launch_time &&
        (last == nullptr || it.launch_time > last->launch_time))
      last = &it;
  return last != nullptr && last->reason == "Client.InstanceInitiatedShutdown";
}

// Asking again changes nothing.
bool is_final(const CallError& error) {
  return error.forbidden() || error.kind == CallError::Kind::NotFound;
}

bool launches(wire::FleetState state) {
  using State = wire::FleetState;
  return state == State::Submitted || state == State::Active || state == State::Modifying ||
         state == State::Unknown;
}

FleetKind kind_of(std::string_view id) {
  if (id.starts_with("sfr-")) return FleetKind::SpotFleet;
  return id.starts_with("fleet-") ? FleetKind::Ec2Fleet : FleetKind::AutoScalingGroup;
}

wire::DescribeInstances all_of(const Fleet& fleet) {
  wire::DescribeInstances request;
  for (const FleetTag& entry : kFleetTags) {
    if (entry.kind == fleet.kind) request.filters = {wire::tagged(entry.key, fleet.id.str())};
  }
  return request;
}

// A cancellation can fail inside a successful answer. A fleet that does not exist, or is no longer
// cancellable, counts as cancelled.
decide::Happening outcome(const Result<std::vector<wire::FleetFailure>, CallError>& result,
                          const FleetId& fleet) {
  if (!result) return as_failure(result.error());
  for (const wire::FleetFailure& failed : *result) {
    if (failed.id != fleet || wire::is_ended_already(failed)) continue;
    return decide::EffectFailed{.detail = decide::Detail(failed.code + ": " + failed.message)};
  }
  return decide::CallAccepted{};
}

using Status = Result<wire::FleetStatus, CallError>;

asio::awaitable<Status> none_of(FleetId id) {
  co_return tl::unexpected(
      CallError{.kind = CallError::Kind::NotFound, .message = id.str() + " is not there"});
}

template <class Request>
asio::awaitable<Status> first_of(AwsClient& aws, Request request, FleetId id, Duration limit) {
  const auto answer = co_await aws.call(std::move(request), limit);
  if (!answer) co_return tl::unexpected(answer.error());
  if (answer->items.empty()) co_return co_await none_of(id);
  co_return answer->items.front();
}

}  // namespace

asio::awaitable<Result<wire::FleetStatus, CallError>> Cloud::status_of(Fleet fleet,
                                                                       Duration limit) {
  if (fleet.kind == FleetKind::SpotFleet)
    return first_of(aws_, wire::DescribeSpotFleetRequests{{fleet.id}}, fleet.id, limit);
  if (fleet.kind == FleetKind::AutoScalingGroup)
    return first_of(aws_, wire::DescribeAutoScalingGroups{{fleet.id}}, fleet.id, limit);
  if (fleet.kind == FleetKind::Ec2Fleet)
    return first_of(aws_, wire::DescribeFleets{{fleet.id}}, fleet.id, limit);
  return none_of(fleet.id);
}

asio::awaitable<Result<std::string, CallError>> Cloud::watchers_tag(Fleet fleet, Duration limit) {
  const auto status = co_await status_of(fleet, limit / 2);
  if (!status) co_return tl::unexpected(status.error());
  const std::string own = wire::value_of(status->tags, tag::beside);
  std::string its = wire::value_of(status->tags, tag::watched);
  // Also of an on-demand fleet, if the watcher writes it there: the job's own one that is beside it
  // may be one that rests, while the watcher marks another in its region.
  if (own.empty() || !FleetId::fits(own) || !its.empty()) co_return its;
  const Fleet beside{kind_of(own), FleetId(own)};
  const auto there = co_await status_of(beside, limit / 2);
  if (!there) co_return tl::unexpected(there.error());
  co_return wire::value_of(there->tags, tag::watched);
}

Cloud::Answer Cloud::on(decide::ReadFleet effect, Duration whole) {
  const Duration limit = whole / 5;  // five calls at most
  wire::DescribeInstances request;
  request.instances = {effect.instance};
  const auto answer = co_await aws_.call(std::move(request), limit);
  if (!answer) co_return as_failure(answer.error());
  decide::FleetRead read;
  if (answer->items.empty())  // a new instance may be unknown for some seconds
    co_return decide::EffectFailed{.detail = "EC2 does not know this instance yet"};
  const wire::Instance& self = answer->items.front();
  read.fleet = fleet_of(self.tags);
  read.dollars_per_hour = co_await price_of(self, limit);
  const Fleet fleet = job_.fleet.value_or(read.fleet);
  if (job_.storage.share || job_.claims || fleet.kind == FleetKind::Ec2Fleet) {
    const auto status = co_await status_of(fleet, limit);
    // A gang's machines all work, so none has to leave for being one too many.
    if (status && !job_.gang)
      read.target = static_cast<std::uint32_t>(std::max(0, status->target_capacity));
    // A group's own may be shown before the group's tag: what is not known is not taken for final.
    const bool of_ec2 = read.fleet.kind == FleetKind::Ec2Fleet;
    const bool instant = of_ec2 && (!status || status->type == "instant");
    read.once = instant && !self.reservation.empty() && !self.lifecycle.empty();
    read.instant = instant && !read.once;
  }
  Fellows fellows;
  if (fleet.kind != FleetKind::None) fellows = co_await aws_.call_all(all_of(fleet), limit);
  if (fellows) read.shut_down = last_shut_down(fellows->items, self);
  if (!job_.storage.share || job_.claims || job_.gang) co_return read;
  co_return co_await count_earlier(read, self, std::move(fellows), limit);
}

// Without a price only the limit in hours can be enforced, not the one in dollars. The job goes on.
asio::awaitable<double> Cloud::price_of(wire::Instance self, Duration limit) {
  if (self.lifecycle == "capacity-block") co_return 0;  // it was paid for before
  if (self.lifecycle != "spot") {
    wire::GetProducts product{self.type, aws_.region()};
    const auto price = co_await aws_.call(std::move(product), limit);
    co_return price.value_or(0);
  }
  wire::DescribeSpotPriceHistory prices;
  prices.types = {self.type};
  prices.zone = self.zone;
  const auto history = co_await aws_.call_all(std::move(prices), limit);
  if (!history || history->items.empty()) co_return 0;
  co_return std::ranges::max(history->items, {}, &wire::SpotPrice::since).dollars_per_hour;
}

// EBS attaches a volume to one instance, a claim gives an experiment to one, of a gang all work; on
// a share the instance that was launched first writes.
Cloud::Answer Cloud::count_earlier(decide::FleetRead read, wire::Instance self, Fellows fellows,
                                   Duration limit) {
  if (self.state == wire::InstanceState::Stopped)  // nor, then, when it was started again
    co_return decide::EffectFailed{.detail = "EC2 does not show yet that this instance runs"};
  if (job_.fleet.value_or(read.fleet).kind == FleetKind::None) co_return read;
  if (!fellows) co_return as_failure(fellows.error());
  const auto earlier = [&](const wire::Instance& other) { return is_earlier(other, self); };
  read.earlier = static_cast<std::uint32_t>(
      std::count_if(fellows->items.begin(), fellows->items.end(), earlier));
  if (self.image.empty()) co_return read;
  wire::DescribeInstances alike;
  alike.filters = {{"image-id", {wire::exactly(self.image)}}};
  const auto others = co_await aws_.call_all(std::move(alike), limit);
  if (!others) co_return as_failure(others.error());
  read.untagged = count_untagged(others->items, self);
  co_return read;
}

asio::awaitable<std::uint32_t> Cloud::count_instances(Fleet fleet, Duration limit) {
  if (fleet.kind == FleetKind::None) co_return 0;
  const auto all = co_await aws_.call_all(all_of(fleet), limit);
  if (!all) co_return 0;
  const auto works = [](const wire::Instance& each) {
    return each.state == wire::InstanceState::Pending || each.state == wire::InstanceState::Running;
  };
  co_return static_cast<std::uint32_t>(std::count_if(all->items.begin(), all->items.end(), works));
}

// ValidationError: no hook of that name holds the instance, or no longer.
Cloud::Answer Cloud::on(decide::CompleteLifecycle effect, Duration limit) {
  wire::CompleteLifecycleAction request;
  request.group = effect.fleet.id;
  request.instance = effect.instance;
  const auto result = co_await aws_.call(std::move(request), limit);
  if (!result && result.error().code == "ValidationError") co_return decide::CallAccepted{};
  co_return accepted(result);
}

// The fleet that waits for spot capacity while this one has the job's instance on demand. It is the
// job's only if its own tags say so, too. None where it is unknown or may not be read: then this
// one at least is ended.
asio::awaitable<Result<Fleet, CallError>> Cloud::fleet_beside(Fleet fleet, Duration limit) {
  if (fleet.kind != FleetKind::Ec2Fleet) co_return Fleet{};
  const auto status = co_await status_of(fleet, limit / 2);
  if (!status && !is_final(status.error())) co_return tl::unexpected(status.error());
  const std::string id = status ? wire::value_of(status->tags, tag::beside) : "";
  if (id.empty() || !FleetId::fits(id)) co_return Fleet{};
  const Fleet other{kind_of(id), FleetId(id)};
  const auto there = co_await status_of(other, limit / 2);
  if (!there && !is_final(there.error())) co_return tl::unexpected(there.error());
  const auto same = [&](const char* key) {
    return wire::value_of(there->tags, key) == wire::value_of(status->tags, key);
  };
  // Neither of two fleets that name one another would be ended.
  const bool ours = there && launches(there->state) && same(tag::job) && same(tag::storage) &&
                    wire::value_of(there->tags, tag::beside).empty();
  co_return ours ? other : Fleet{};
}

// Does it first to the fleet beside this one, if there is one: the end of this one also ends the
// instance that would try again. A final refusal by EC2 there does not keep this one.
Cloud::Answer Cloud::to_both(Fleet fleet, Cloud::Answer (Cloud::*what)(Fleet, Duration),
                             Duration limit) {
  const auto other = co_await fleet_beside(fleet, limit / 3);
  if (!other) co_return as_failure(other.error());
  if (other->kind != FleetKind::None) {
    const decide::Happening done = co_await (this->*what)(*other, limit / 3);
    const auto* failed = std::get_if<decide::EffectFailed>(&done);
    const bool for_good = failed != nullptr && (failed->failure == decide::Failure::Refused ||
                                                failed->failure == decide::Failure::Rejected);
    if (failed != nullptr && !for_good) co_return *failed;
  }
  co_return co_await (this->*what)(fleet, limit / 3);
}

Cloud::Answer Cloud::cancel_one(Fleet fleet, Duration limit) {
  if (fleet.kind == FleetKind::AutoScalingGroup) {
    auto emptying = carry_out(wire::SetDesiredCapacity{fleet.id, 0}, limit);
    co_return co_await std::move(emptying);
  }
  if (fleet.kind == FleetKind::Ec2Fleet) {
    auto call = aws_.call(wire::DeleteFleets{{fleet.id}}, limit);
    const auto result = co_await std::move(call);
    co_return outcome(result, fleet.id);
  }
  auto call = aws_.call(wire::CancelSpotFleetRequests{{fleet.id}}, limit);
  const auto result = co_await std::move(call);
  co_return outcome(result, fleet.id);
}

Cloud::Answer Cloud::lower_target(Fleet fleet, std::uint32_t needed, Duration limit) {
  const int most = static_cast<int>(needed);
  const auto status = co_await status_of(fleet, limit / 2);
  const bool asks_again = !status && !is_final(status.error());
  if (asks_again) co_return as_failure(status.error());    // it may ask for on-demand instances
  const bool fixed = status && status->type == "instant";  // it replaces none
  if (fixed || (status && status->target_capacity <= most)) co_return decide::CallAccepted{};
  const int on_demand = status ? std::min(most, status->on_demand) : 0;
  auto lowering =
      fleet.kind == FleetKind::Ec2Fleet
          ? carry_out(wire::ModifyFleet{fleet.id, most, on_demand, false}, limit / 2)
          : carry_out(wire::ModifySpotFleetRequest{fleet.id, most, on_demand, false}, limit / 2);
  co_return co_await std::move(lowering);
}

Cloud::Answer Cloud::leave_fleet(Fleet fleet, InstanceId self, std::optional<std::uint32_t> needed,
                                 Duration limit) {
  if (needed && fleet.kind == FleetKind::AutoScalingGroup) {  // it can do both at once
    auto leaving = carry_out(wire::TerminateInGroup{self}, limit);
    co_return co_await std::move(leaving);
  }
  if (needed) {
    decide::Happening lowered = co_await lower_target(fleet, *needed, limit);
    if (std::holds_alternative<decide::EffectFailed>(lowered)) co_return lowered;
  }
  auto ending = carry_out(wire::TerminateInstances{{self}}, limit);
  co_return co_await std::move(ending);
}

Cloud::Answer Cloud::on(decide::LeaveFleet effect, Duration limit) {
  if (!places_left_ && effect.fleet.kind != FleetKind::AutoScalingGroup) {
    const auto status = co_await status_of(effect.fleet, limit / 4);
    if (!status && is_final(status.error())) {  // it is not there: it starts no other
      co_return co_await leave_fleet(effect.fleet, effect.instance, std::nullopt, limit / 4);
    }
    if (!status) co_return as_failure(status.error());
    places_left_ = static_cast<std::uint32_t>(std::max(0, status->target_capacity - 1));
  }
  co_return co_await leave_fleet(effect.fleet, effect.instance, places_left_.value_or(0),
                                 limit / 4);
}

Cloud::Answer Cloud::scale_one_to_zero(Fleet fleet, Duration limit) {
  if (fleet.kind == FleetKind::AutoScalingGroup) {
    auto emptying = carry_out(wire::SetDesiredCapacity{fleet.id, 0}, limit);
    co_return co_await std::move(emptying);
  }
  if (fleet.kind == FleetKind::Ec2Fleet) {
    // "You can only modify an EC2 Fleet request of type maintain": to end an instant one's machines
    // is all there is.
    const auto status = co_await status_of(fleet, limit / 2);
    if (!status && !is_final(status.error())) co_return as_failure(status.error());
    if (status && status->type == "instant") co_return co_await cancel_one(fleet, limit / 2);
    auto emptying = carry_out(wire::ModifyFleet{fleet.id, 0}, limit / 2);
    co_return co_await std::move(emptying);
  }
  auto emptying = carry_out(wire::ModifySpotFleetRequest{fleet.id, 0}, limit);
  co_return co_await std::move(emptying);
}

}  // namespace spotter::act
