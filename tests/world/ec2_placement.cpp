// Placement groups: which instances are to be near one another.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html; codes of errors:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
#include "tests/world/ec2_api.hpp"
#include "tests/world/instances.hpp"
#include "tests/world/offers.hpp"

namespace spotter::world {
namespace {

constexpr std::size_t most_groups = 500;  // of an account in a region
constexpr std::size_t longest_name = 255;
constexpr int most_in_spread = 7;  // running instances in a zone

ApiError unknown_group(const std::string& name) {
  return {"InvalidPlacementGroup.Unknown", "The Placement Group '" + name + "' is unknown."};
}

// Also one that is being deleted; nullptr: it is gone.
const PlacementGroup* group_of(const Cloud& cloud, const std::string& name) {
  const auto found = cloud.placement_groups.find(name);
  if (found == cloud.placement_groups.end()) return nullptr;
  const PlacementGroup& group = found->second;
  return group.gone && *group.gone <= cloud.now ? nullptr : &group;
}

const char* state_of(const Cloud& cloud, const PlacementGroup& group) {
  if (group.gone) return "deleting";
  return group.available <= cloud.now ? "available" : "pending";
}

// An instance that shuts down is still in its group, and a terminated one is for a while.
const Instance* one_in(const Cloud& cloud, const std::string& group) {
  const Instance* found = nullptr;
  cloud.instances.each([&](const Instance& it) {
    const bool left =
        it.state == InstanceState::Terminated && it.died &&
        *it.died + cloud.settings.shut_down.most + cloud.settings.placement_left <= cloud.now;
    if (it.placement_group == group && !left) found = &it;
  });
  return found;
}

int count_in(const Cloud& cloud, const std::string& group, const Zone& zone) {
  int count = 0;
  cloud.instances.each([&](const Instance& it) {
    count += it.placement_group == group && it.zone == zone && is_alive(it);
  });
  return count;
}

void write_group(Xml& xml, const Cloud& cloud, const PlacementGroup& it) {
  xml.text("groupName", it.name);
  xml.text("state", state_of(cloud, it));
  xml.text("strategy", it.strategy);
  xml.text("groupId", it.id);
  write_tags(xml, it.tags);
  xml.text("groupArn", "arn:aws:ec2:" + cloud.settings.region.str() + ":" + cloud.settings.account +
                           ":placement-group/" + it.name);
}

Answer create_placement_group(Session& session) {
  const Query& query = session.query;
  Cloud& cloud = session.cloud;
  PlacementGroup group{.name = query.required("GroupName"),
                       .strategy = query.text("Strategy", "cluster"),
                       .tags = query.tags_for("placement-group")};
  SPOTTER_CHECK_QUERY(session);
  if (group.name.size() > longest_name)
    return refusal("InvalidParameterValue", "The group name is longer than 255 characters.");
  if (group.strategy != "cluster" && group.strategy != "spread" && group.strategy != "partition")
    return refusal("InvalidParameterValue", "Invalid placement strategy: " + group.strategy);
  if (group_of(cloud, group.name) != nullptr)
    return refusal("InvalidPlacementGroup.Duplicate",
                   "The Placement Group '" + group.name + "' already exists.");
  if (cloud.placement_groups.size() >= most_groups)
    return refusal("PlacementGroupLimitExceeded", "The maximum number of placement groups exist.");
  group.id = "pg-0" + cloud.random.hex(16);
  group.available = cloud.now + cloud.random.within(cloud.settings.placement_group);
  cloud.record("placement-group-created", group.name);
  const PlacementGroup& made = cloud.placement_groups[group.name] = group;
  Xml xml;
  xml.element("placementGroup", [&] { write_group(xml, cloud, made); });
  return xml;
}

// It has no pages.
Answer describe_placement_groups(Session& session) {
  const Query& query = session.query;
  const Cloud& cloud = session.cloud;
  const auto filters = query.filters();
  if (auto checked = check_filters(filters, {"group-name", "state", "strategy"}); !checked)
    return tl::unexpected(checked.error());
  auto names = query.list("GroupName");
  for (const std::string& id : query.list("GroupId")) {
    const auto found = std::ranges::find_if(cloud.placement_groups,
                                            [&](const auto& it) { return it.second.id == id; });
    names.push_back(found == cloud.placement_groups.end() ? id : found->first);
  }
  for (const std::string& name : names)
    if (group_of(cloud, name) == nullptr) return tl::unexpected(unknown_group(name));
  SPOTTER_CHECK_QUERY(session);
  std::vector<PlacementGroup> rows;
  for (const auto& [name, it] : cloud.placement_groups) {
    if (group_of(cloud, name) == nullptr) continue;
    const bool named = names.empty() || std::ranges::find(names, name) != names.end();
    const Facts facts{
        {"group-name", name}, {"state", state_of(cloud, it)}, {"strategy", it.strategy}};
    if (named && passes(filters, facts, it.tags)) rows.push_back(it);
  }
  Xml xml;
  xml.items("placementGroupSet", rows,
            [&](const PlacementGroup& it) { write_group(xml, cloud, it); });
  return xml;
}

Answer delete_placement_group(Session& session) {
  Cloud& cloud = session.cloud;
  const std::string name = session.query.required("GroupName");
  SPOTTER_CHECK_QUERY(session);
  const PlacementGroup* const group = group_of(cloud, name);
  if (group == nullptr || group->gone) return tl::unexpected(unknown_group(name));
  if (one_in(cloud, name) != nullptr)
    return refusal("InvalidPlacementGroup.InUse",
                   "The placement group '" + name + "' is in use and may not be deleted.");
  cloud.placement_groups[name].gone =
      cloud.now + cloud.random.within(cloud.settings.placement_group);
  cloud.record("placement-group-deleted", name);
  return returned_true();
}

}  // namespace

std::optional<ApiError> refuse_placement(const Cloud& cloud, const LaunchOption& option) {
  const std::string& name = option.placement_group;
  if (name.empty()) return std::nullopt;
  const PlacementGroup* const group = group_of(cloud, name);
  if (group == nullptr || state_of(cloud, *group) != std::string("available"))
    return unknown_group(name);
  if (group->strategy == "spread" && count_in(cloud, name, option.zone) >= most_in_spread)
    return ApiError{"InsufficientInstanceCapacity",
                    "The spread placement group '" + name + "' has seven instances in " +
                        option.zone.str() + " already.",
                    500};
  if (group->strategy != "cluster") return std::nullopt;
  const std::string type = option.type.str();
  if (!fits_in_a_cluster(type))
    return ApiError{"InvalidParameterCombination",
                    "Cluster placement groups are not supported by the '" + type +
                        "' instance type. Specify a supported instance type or change the "
                        "placement group strategy, and try again."};
  const Instance* const other = one_in(cloud, name);
  if (other == nullptr || other->zone == option.zone) return std::nullopt;
  return ApiError{"InvalidPlacementGroup.InUse",
                  "The placement group '" + name +
                      "' is in use in another availability zone: " + other->zone.str()};
}

Tags tags_of_placement_group(const Cloud& cloud, const std::string& name) {
  const PlacementGroup* const it = group_of(cloud, name);
  return it == nullptr ? Tags() : it->tags;
}

void add_placement_operations(Operations& operations) {
  operations["CreatePlacementGroup"] = create_placement_group;
  operations["DeletePlacementGroup"] = delete_placement_group;
  operations["DescribePlacementGroups"] = describe_placement_groups;
}

}  // namespace spotter::world
