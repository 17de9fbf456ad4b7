#include "agent/commands/watch_look.hpp"

#include <algorithm>
#include <iterator>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/launch/requests.hpp"
#include "agent/wire/head.hpp"

namespace spotter::command {
namespace {

// AWS's tag: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-tags.html
constexpr const char* of_fleet = "aws:ec2:fleet-id";

using State = launch::WatchedMachine::State;

State state_of(wire::InstanceState state) {
  if (state == wire::InstanceState::Pending) return State::Starting;
  if (state == wire::InstanceState::Running) return State::Running;
  const bool ended =
      state == wire::InstanceState::Terminated || state == wire::InstanceState::Stopped;
  return ended ? State::Ended : State::Ending;
}

// A head that cannot be read, as with a policy of before, says nothing: the end of its fleets says
// so later.
std::optional<wire::Head> read_head(const config::Job& job) {
  const auto head = job.headed_at();
  if (!head) return std::nullopt;
  s3::Client client(
      {.environment = act::Environment::of_this_process(), .patience = std::chrono::seconds(20)});
  const auto answer =
      client.perform({.bucket = head->bucket, .key = head->key + std::string(wire::head_name)});
  if (!answer) return std::nullopt;
  const auto read = wire::parse_head(answer->body);
  return read ? std::optional(*read) : std::nullopt;
}

Result<bool, CallError> is_done(AwsCalls& calls, const config::Job& job, const Seen& seen) {
  if (seen.head) return seen.head->epoch.state == decide::Epoch::State::Done;
  if (job.storage.share || job.sweep) return false;  // then the end of its fleet says so
  const auto volumes = volumes_of(calls, job);
  if (!volumes) return tl::unexpected(volumes.error());
  return std::ranges::any_of(*volumes, [](const wire::Volume& it) {
    return wire::value_of(it.tags, tag::done) == "true";
  });
}

launch::WatchedFleet watched(const JobFleet& own) {
  launch::WatchedFleet fleet{own.fleet.id, own.target,
                             own.fleet.kind != FleetKind::AutoScalingGroup};
  if (const auto rested = wire::parse_rfc3339(own.rests)) fleet.rested = *rested;
  fleet.silence = launch::silence_of(own.rests);
  return fleet;
}

Result<Seen, CallError> look_once(AwsCalls& calls, const config::Job& job) {
  Seen seen;
  auto fleets = job_fleets(calls, key_of(job));
  if (!fleets) return tl::unexpected(fleets.error());
  seen.watched.now = calls.now();
  seen.all = *fleets;
  std::erase_if(*fleets, [&](const JobFleet& it) {
    if (!it.is_at_work() && !it.is_own()) seen.ended += "\n" + it.fleet.id.str();
    return !it.is_at_work() || it.role == launch::role_of_preparers;
  });
  seen.fleets = std::move(*fleets);
  const auto machines = all_job_instances(calls, key_of(job));
  if (!machines) return tl::unexpected(machines.error());
  for (const wire::Instance& it : *machines)
    if (wire::value_of(it.tags, tag::role) != launch::role_of_preparers) {
      const bool spot = it.lifecycle == "spot";
      const std::string fleet = wire::value_of(it.tags, of_fleet);
      seen.watched.machines.push_back({it.id, spot, state_of(it.state), it.launch_time,
                                       FleetId::fits(fleet) ? FleetId(fleet) : FleetId()});
      if (!spot || state_of(it.state) > State::Running) continue;
      seen.spot = PoolPrices::Pool{it.type.str(), it.zone.str(), 0};
    }
  if (job.storage.in_bucket() && !job.sweep) seen.head = read_head(job);
  const auto done = is_done(calls, job, seen);
  if (!done) return tl::unexpected(done.error());
  seen.watched.done = *done;
  for (const JobFleet& it : seen.fleets)
    if (!it.is_own()) {
      seen.watched.beside.push_back({it.fleet.id, it.target});
      seen.watched.beside.back().created = it.created;
    }
  if (const JobFleet* own = seen.own()) {
    seen.watched.own = watched(*own);
    seen.watched.mark = launch::mark_of(own->watched);
  }
  return seen;
}

}  // namespace

const JobFleet* Seen::own() const {
  const auto it = std::ranges::find_if(fleets, &JobFleet::is_own);
  return it == fleets.end() ? nullptr : &*it;
}

std::vector<JobFleet> Looked::all() const {
  std::vector<JobFleet> all;
  for (const Seen& it : places) std::ranges::copy(it.all, std::back_inserter(all));
  return all;
}

std::vector<launch::PlaceSeen> Looked::places_seen(const std::vector<JobPlace>& of) const {
  std::vector<launch::PlaceSeen> seen;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Seen& it = places[i];
    seen.push_back({of[i].calls->region().str(), it.watched.own, it.watched.mark});
  }
  return seen;
}

launch::PlaceSeen place_seen(const JobPlace& place, const std::vector<JobFleet>& fleets) {
  launch::PlaceSeen seen{place.calls->region().str(), {}, {}};
  for (const JobFleet& it : fleets) {
    if (!it.is_at_work() || !it.is_own() || seen.own) continue;
    seen.own = watched(it);
    seen.mark = launch::mark_of(it.watched);
  }
  return seen;
}

Result<Looked, CallError> look_at(const std::vector<JobPlace>& places) {
  Looked looked;
  std::optional<CallError> trouble;
  std::string unread;
  for (const JobPlace& it : places) {
    auto seen = look_once(*it.calls, it.job);
    if (!seen) {
      trouble = seen.error();
      seen = Seen{};
      const std::string region = it.calls->region().str();
      seen->trouble = region + ": " + trouble->message;
      unread += (unread.empty() ? "" : " and ") + region;
    }
    looked.places.push_back(std::move(*seen));
  }
  const auto seen_places = looked.places_seen(places);
  looked.here = launch::place_of_job(seen_places);
  if (trouble && !seen_places[looked.here].asks()) return tl::unexpected(*trouble);
  looked.watched = looked.seen().watched;
  looked.watched.elsewhere = places.size() > 1;
  looked.watched.unread = unread;
  looked.watched.missing = launch::missing_in(seen_places);
  for (std::size_t i = 0; i < looked.places.size(); ++i) {
    if (i == looked.here) continue;
    const launch::Watched& there = looked.places[i].watched;
    std::ranges::copy(there.beside, std::back_inserter(looked.watched.beside));
    std::ranges::copy(there.machines, std::back_inserter(looked.watched.machines));
    looked.watched.done = looked.watched.done || there.done;
  }
  return looked;
}

}  // namespace spotter::command
