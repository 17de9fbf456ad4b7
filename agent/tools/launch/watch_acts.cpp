#include "agent/tools/launch/watch_acts.hpp"

#include <algorithm>
#include <cstdio>

#include "agent/aws/formats/aws_command.hpp"
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/io/complain.hpp"
#include "agent/launch/requests.hpp"

namespace spotter::command {
namespace {

Result<void, CallError> write_tag(const There& it, const FleetId& fleet, const std::string& key,
                                  const std::string& text) {
  const auto written = it.calls.perform(encode(wire::CreateTags{{fleet.str()}, {{key, text}}}));
  if (!written) return tl::unexpected(written.error());
  return {};
}

// By the version of the template that the job's own fleet launches from: a newer one may be of a
// launch that failed later. Two watchers that saw the same time ask for the same fleet.
Result<wire::AwsCommand, CallError> request_of(const There& it, const launch::WatchMark& mark,
                                               const std::string& ended) {
  const JobFleet& own = *it.seen.own();
  const auto& [id, version] = own.launch_template;
  if (id.empty() || version.empty())
    return failed("AWS does not say which launch template " + own.fleet.id.str() + " launches by");
  const std::string when = own.fleet.id.str() + "\n" + wire::to_rfc3339(mark.since) + ended;
  const std::string token = "on-demand-" + wire::sha256_hex(when).substr(0, 40);
  return launch::request_on_demand(it.job, {id, version}, own.fleet.id, token, own.digest);
}

void try_to_mark(const There& it, const FleetId& fleet, const launch::WatchMark& mark) {
  if (const auto written = write_tag(it, fleet, tag::watched, launch::tag_of(mark)); !written)
    io::complain("watch", written.error().message);
}

}  // namespace

Result<void, CallError> write_mark(const There& it, const launch::WatchMark& mark) {
  const JobFleet* own = it.seen.own();
  if (own == nullptr) return {};
  const std::string text = launch::tag_of(mark);
  const FleetId& id = own->fleet.id;
  if (own->fleet.kind != FleetKind::AutoScalingGroup) return write_tag(it, id, tag::watched, text);
  const auto written =
      it.calls.perform(wire::query_of(launch::mark_group(id, it.job.name.str(), text)));
  if (!written) return tl::unexpected(written.error());
  return {};
}

void mark_on_demand(const There& it, const launch::WatchMark& mark) {
  for (const JobFleet& each : it.seen.fleets)
    if (!each.is_own()) try_to_mark(it, each.fleet.id, mark);
}

Result<void, CallError> write_rest(const There& it, const std::string& text) {
  return write_tag(it, it.seen.own()->fleet.id, tag::rests, text);
}

void try_to_write_rest(const There& it, const std::string& text) {
  if (const auto written = write_rest(it, text); !written)
    io::complain("watch", written.error().message);
}

Result<void, CallError> ask_on_demand(const There& it, const launch::WatchMark& mark,
                                      const std::string& ended, bool dry_run) {
  const auto request = request_of(it, mark, ended);
  if (!request) return tl::unexpected(request.error());
  if (dry_run) {
    std::printf("%s\n", wire::command_of(*request).c_str());
    return {};
  }
  const auto made = it.calls.ask(wire::query_of(*request), wire::decode_created_fleet);
  if (!made) return tl::unexpected(made.error());
  std::printf("%s asks for it\n", made->id.str().c_str());
  if (!made->errors.empty()) io::complain("watch", made->id.str() + ": " + made->errors);
  try_to_mark(it, made->id, mark);
  return {};
}

Result<void, CallError> write_lack(const There& it, const FleetId& fleet) {
  return write_tag(it, fleet, tag::rests, launch::tag_of_lack(it.seen.watched.now));
}

Result<void, CallError> end_there(const There& it, const std::vector<FleetId>& ids, bool dry_run) {
  std::vector<JobFleet> ended = it.seen.fleets;
  std::erase_if(ended, [&](const JobFleet& each) {
    return std::ranges::find(ids, each.fleet.id) == ids.end();
  });
  for (const JobFleet& each : ended)
    std::printf("%s %s\n", each.fleet.id.str().c_str(), dry_run ? "would be ended" : "is ended");
  return dry_run ? Result<void, CallError>{} : end_fleets(it.calls, ended, true);
}

Result<void, CallError> set_target(const There& it, int target, bool dry_run) {
  const Fleet& fleet = it.seen.own()->fleet;
  std::printf("%s %s the target %d\n", fleet.id.str().c_str(), dry_run ? "would get" : "gets",
              target);
  if (dry_run) return {};
  const auto changed =
      it.calls.perform(wire::query_of(launch::set_capacity(fleet, {.target = target})));
  if (!changed) return tl::unexpected(changed.error());
  return {};
}

}  // namespace spotter::command
