#include "agent/tools/init/account.hpp"

#include <algorithm>
#include <set>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/tools/doctor/doctor.hpp"

namespace spotter::command {
namespace {

using Names = std::set<std::string>;

// Keeps those that are in both, unless that would leave none.
void narrow(Names& zones, const Names& to) {
  Names both;
  std::ranges::set_intersection(zones, to, std::inserter(both, both.end()));
  if (!both.empty()) zones = std::move(both);
}

}  // namespace

AccountView::AccountView(const Region& region) : calls_(AwsCalls::open(region)) {
  const auto who = calls_->ask(wire::GetCallerIdentity{});
  if (who)
    number_ = who->account;
  else
    trouble_ = who.error().message;
}

std::vector<std::string> AccountView::offered(const std::vector<std::string>& types) {
  if (number_.empty()) return types;
  const auto there = calls_->ask_all(wire::DescribeInstanceTypeOfferings{types, {}});
  if (!there) return types;
  std::vector<std::string> found = types;
  std::erase_if(found, [&](const std::string& type) {
    return std::ranges::none_of(*there, [&](const auto& it) { return it.type.str() == type; });
  });
  return found.empty() ? types : found;
}

std::vector<std::string> AccountView::zones(const std::vector<std::string>& types) {
  if (number_.empty()) return {};
  const auto places = calls_->ask(wire::DescribeAvailabilityZones{});
  if (!places) return {};
  Names zones;
  for (const auto& it : places->items)
    if (it.state == "available") zones.insert(it.zone.str());
  wire::DescribeSubnets defaults;
  defaults.filters = {{"default-for-az", {"true"}}};
  Names with_subnet, with_type;
  if (const auto subnets = calls_->ask_all(defaults))
    for (const auto& it : *subnets) with_subnet.insert(it.zone.str());
  if (const auto there = calls_->ask_all(wire::DescribeInstanceTypeOfferings{types, {}}))
    for (const auto& it : *there) with_type.insert(it.zone.str());
  narrow(zones, with_subnet);
  narrow(zones, with_type);
  return {zones.begin(), zones.end()};
}

std::string AccountView::remarks(const config::Job& job) {
  if (number_.empty() || !job.launch) return {};
  Findings all = examine_places(*calls_, job, scope_of(job));
  std::ranges::move(examine_quotas(*calls_, *job.launch), std::back_inserter(all));
  return describe(without_ok(std::move(all)));
}

}  // namespace spotter::command
