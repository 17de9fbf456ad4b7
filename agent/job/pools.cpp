#include "agent/job/pools.hpp"

#include <algorithm>

#include "agent/job/job.hpp"
#include "agent/job/scalars.hpp"

namespace spotter::config {
namespace {

Result<std::string> parse_region(std::string_view text) {
  const bool known = !text.empty() && Region::fits(text) &&
                     text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos &&
                     text.back() >= '0' && text.back() <= '9';
  if (known) return std::string(text);
  return failure(in_quotes(text) + " is no region, such as us-east-2");
}
const Scalar<std::string> region{"a region such as us-east-2", parse_region};

Reader::Fields place_fields(Reader& reader, Place& place) {
  return {{"region", optional, reader.expanded(place.region, region)},
          {"types", required, reader.texts(place.instance_types, instance_type)},
          {"zones", optional, reader.texts(place.zones, plain_name)},
          {"subnets", optional, reader.texts(place.subnets, plain_name)},
          {"security_groups", optional, reader.texts(place.security_groups, plain_name)},
          {"key", optional, reader.expanded(place.key, tag_value)},
          {"image", optional, reader.expanded(place.image, image)}};
}

bool has_own_image(const Place& place) { return !place.image.empty(); }

// What is of one region cannot be said for all of them.
void check_shared(Reader& reader, const Node& node, const std::string& path, const Launch& launch) {
  if (!launch.security_groups.empty() || !launch.key.empty())
    reader.problem(node, path,
                   "security_groups and key are of one region: give them in each of pools");
  if (launch.image.starts_with("ami-") && !std::ranges::all_of(launch.places, has_own_image))
    reader.problem(node, path,
                   "image: " + launch.image +
                       " is of one region: give one in each of pools, or a parameter that all "
                       "regions have: resolve:ssm:/aws/service/...");
  if (launch.type == FleetKind::AutoScalingGroup)
    reader.problem(node, path,
                   "an Auto Scaling group does not wait at target 0 while the job runs in another "
                   "region: take `type: fleet` or `spot-fleet`");
  if (launch.on_demand.when != OnDemand::When::WhenNeeded)
    reader.problem(node, path,
                   "pools in several regions need `on_demand: when-needed`: `spotter watch` moves "
                   "the job from one to another");
}

}  // namespace

Reader::Take pools(Reader& reader, Launch& launch) {
  return [&](const Node& node, const std::string& path) {
    if (node.kind != Node::Kind::List || node.items.empty())
      return reader.problem(node, path,
                            "expected a list of pools, such as [{types: [g5.xlarge]}, {region: "
                            "us-east-2, types: [g5.xlarge]}]");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      Place place;
      const std::string its = path + "[" + std::to_string(i) + "]";
      reader.map(node.items[i], its, place_fields(reader, place));
      const auto same = std::ranges::find(launch.places, place.region, &Place::region);
      if (same != launch.places.end())
        reader.problem(node.items[i], its,
                       (place.region.empty() ? "a second one without region"
                                             : place.region + " is there twice") +
                           std::string(": give all types and zones of a region in one entry"));
      launch.places.push_back(std::move(place));
    }
  };
}

void settle_pools(Reader& reader, const Node& node, const std::string& path, Launch& launch) {
  const Node* given = child(node, "pools");
  if (given == nullptr) {
    if (child(node, "instance_types") == nullptr)
      reader.problem(node, path, "the key 'instance_types' is missing");
    return;
  }
  for (const char* key : {"instance_types", "zones", "subnets"})
    if (child(node, key) != nullptr)
      reader.problem(
          *given, path + ".pools",
          "has types, zones and subnets of its own: leave out launch." + std::string(key));
  if (launch.places.size() > 1) check_shared(reader, *given, path + ".pools", launch);
  if (launch.places.empty()) return;
  const std::vector<Place> places = launch.places;
  launch = launch_at(launch, 0);
  launch.places = places;
}

Launch launch_at(const Launch& launch, std::size_t place) {
  Launch there = launch;
  there.places.clear();
  if (place >= launch.places.size()) return there;
  const Place& it = launch.places[place];
  there.region = it.region;
  there.instance_types = it.instance_types;
  there.zones = it.zones;
  there.subnets = it.subnets;
  if (!it.security_groups.empty()) there.security_groups = it.security_groups;
  if (!it.key.empty()) there.key = it.key;
  if (!it.image.empty()) there.image = it.image;
  return there;
}

void check_pools(Reader& reader, const Node& node, const Job& job) {
  if (job.launch->places.size() < 2 || job.storage.in_bucket()) return;
  reader.problem(node, "launch.pools",
                 "several regions need `storage: {s3: s3://bucket/prefix}`: a volume is in one "
                 "zone, and a share in one region");
}

}  // namespace spotter::config
