#include <algorithm>
#include <map>

#include "agent/commands/launched_job.hpp"

namespace spotter::command {
namespace {

// The one call of a command that `spotter prepare` also makes on an instance, by the role there.

// https://docs.aws.amazon.com/ram/latest/userguide/working-with-az-ids.html
bool is_zone_id(std::string_view text) {
  const auto end = text.rfind("-az");
  if (end == text.npos || end == 0) return false;
  const std::string_view number = text.substr(end + 3);
  return !number.empty() && number.find_first_not_of("0123456789") == number.npos;
}

}  // namespace

bool says_zone_ids(const config::Launch& launch) {
  return std::ranges::any_of(launch.zones, is_zone_id) ||
         (launch.volume && is_zone_id(launch.volume->zone));
}

Result<void, CallError> name_zones(AwsCalls& calls, config::Launch& launch) {
  if (!says_zone_ids(launch)) return {};
  const auto there = TRY(calls.ask(wire::DescribeAvailabilityZones{}));
  std::map<std::string, std::string> names;
  std::string known;
  for (const auto& it : there.items) {
    names[it.id] = it.zone.str();
    known += (known.empty() ? "" : ", ") + it.id + " (" + it.zone.str() + ")";
  }
  std::vector<std::string*> all;
  for (std::string& zone : launch.zones) all.push_back(&zone);
  if (launch.volume) all.push_back(&launch.volume->zone);
  for (std::string* zone : all) {
    if (!is_zone_id(*zone)) continue;
    const auto name = names.find(*zone);
    if (name == names.end())
      return failed("this account has no zone " + *zone + " in " + calls.region().str() +
                    ": choose among " + known);
    *zone = name->second;
  }
  for (auto it = launch.zones.begin(); it != launch.zones.end(); ++it)
    if (std::find(launch.zones.begin(), it, *it) != it)
      return failed("launch.zones: " + *it + " is there twice, once by its id: remove one of them");
  return {};
}

}  // namespace spotter::command
