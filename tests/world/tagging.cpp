#include "tests/world/tagging.hpp"

#include <functional>

#include "tests/world/ec2_parameters.hpp"
#include "tests/world/members.hpp"

namespace spotter::world {

namespace {

constexpr std::size_t most_tags = 50;

template <class Id, class Row>
Tags* change_tags(Cloud& cloud, Table<Id, Row>& table, const std::string& id) {
  if (!Id::fits(id) || !table.seen(Id(id), cloud.now)) return nullptr;
  return &table.change(Id(id), cloud.now, cloud.lag()).tags;
}

template <class Id, class Row>
const Tags* tags_in(const Cloud& cloud, const Table<Id, Row>& table, const std::string& id) {
  const Row* row = Id::fits(id) ? table.seen(Id(id), cloud.now) : nullptr;
  return row ? &row->tags : nullptr;
}

// REQUIRES: it exists.
const Tags& tags_of(const Cloud& cloud, const std::string& id) {
  const Tags* tags = tags_in(cloud, cloud.volumes, id);
  if (!tags) tags = tags_in(cloud, cloud.snapshots, id);
  if (!tags) tags = tags_in(cloud, cloud.instances, id);
  if (!tags) tags = tags_in(cloud, cloud.fleets, id);
  return tags ? *tags : cloud.templates.at(id).tags;
}

bool exists(const Cloud& cloud, const std::string& id) {
  const Volume* volume = cloud.volumes.seen(VolumeId(id), cloud.now);
  if (volume) return volume->state != VolumeState::Deleted;
  const Snapshot* snapshot = cloud.snapshots.seen(SnapshotId(id), cloud.now);
  if (snapshot) return snapshot->state != SnapshotState::Deleted;
  return cloud.instances.seen(InstanceId(id), cloud.now) ||
         cloud.fleets.seen(FleetId(id), cloud.now) || cloud.templates.count(id);
}

ApiError not_found(const std::string& id) {
  const std::map<std::string, std::string> codes = {{"vol", "InvalidVolume.NotFound"},
                                                    {"snap", "InvalidSnapshot.NotFound"},
                                                    {"i", "InvalidInstanceID.NotFound"},
                                                    {"lt", "InvalidLaunchTemplateId.NotFound"},
                                                    {"sfr", "InvalidSpotFleetRequestId.NotFound"},
                                                    {"fleet", "InvalidFleetId.NotFound"}};
  const std::string kind = id.substr(0, id.find('-'));
  const auto found = codes.find(kind);
  if (!is_resource_id(id, kind + "-")) return {"InvalidID", "The ID '" + id + "' is not valid"};
  if (found == codes.end()) return {"UnsupportedOperation", not_honoured("ResourceId", id)};
  return {found->second, "The ID '" + id + "' does not exist"};
}

Expected<void> change_all(Cloud& cloud, const std::vector<std::string>& resources,
                          const std::function<void(Tags&)>& change) {
  for (const std::string& id : resources) {
    if (!exists(cloud, id)) return tl::unexpected(not_found(id));
  }
  for (const std::string& id : resources) {
    Tags* tags = change_tags(cloud, cloud.volumes, id);
    if (!tags) tags = change_tags(cloud, cloud.snapshots, id);
    if (!tags) tags = change_tags(cloud, cloud.instances, id);
    if (!tags) tags = change_tags(cloud, cloud.fleets, id);
    if (!tags) tags = &cloud.templates.at(id).tags;
    change(*tags);
  }
  return {};
}

bool is_reserved(const std::string& key) { return key.rfind("aws:", 0) == 0; }

// "Each resource can have up to 50 user created tags. System created tags that begin with aws: ...
// do not count" (Using_Tags.html)
bool is_too_many(Tags tags, const Tags& more) {
  for (const auto& [key, value] : more) tags[key] = value;
  std::erase_if(tags, [](const auto& tag) { return is_reserved(tag.first); });
  return tags.size() > most_tags;
}

}  // namespace

Expected<void> create_tags(Cloud& cloud, const std::vector<std::string>& resources,
                           const Tags& tags) {
  for (const std::string& id : resources) {
    if (exists(cloud, id) && is_too_many(tags_of(cloud, id), tags))
      return refusal("TagLimitExceeded", "The maximum number of tags for a resource is 50.");
  }
  const auto changed = change_all(cloud, resources, [&](Tags& its) {
    for (const auto& [key, value] : tags) its[key] = value;
  });
  if (!changed) return changed;
  for (const std::string& id : resources) {
    for (const auto& [key, value] : tags) cloud.record("tagged", id, key + "=" + value);
  }
  return {};
}

Expected<void> delete_tags(
    Cloud& cloud, const std::vector<std::string>& resources,
    const std::vector<std::pair<std::string, std::optional<std::string>>>& tags) {
  return change_all(cloud, resources, [&](Tags& its) {
    if (tags.empty()) std::erase_if(its, [](const auto& tag) { return !is_reserved(tag.first); });
    for (const auto& [key, value] : tags) {
      const auto found = its.find(key);
      if (found != its.end() && (!value || *value == found->second)) its.erase(found);
    }
  });
}

std::vector<TagRow> list_tags(const Cloud& cloud) {
  std::vector<TagRow> rows;
  const auto add = [&](const std::string& id, const char* type, const Tags& tags) {
    for (const auto& [key, value] : tags) rows.push_back({id, type, key, value, {{key, value}}});
  };
  cloud.volumes.each_seen(cloud.now, [&](const Volume& it) {
    if (it.state != VolumeState::Deleted) add(it.id.str(), "volume", it.tags);
  });
  cloud.snapshots.each_seen(cloud.now, [&](const Snapshot& it) {
    if (it.state != SnapshotState::Deleted) add(it.id.str(), "snapshot", it.tags);
  });
  cloud.instances.each_seen(cloud.now,
                            [&](const Instance& it) { add(it.id.str(), "instance", it.tags); });
  cloud.fleets.each_seen(cloud.now, [&](const FleetRequest& it) {
    if (it.group) return;  // its tags are Auto Scaling's
    const bool spot = it.fleet.kind == FleetKind::SpotFleet;
    add(it.fleet.id.str(), spot ? "spot-fleet-request" : "fleet", it.tags);
  });
  for (const auto& [id, it] : cloud.templates) add(id, "launch-template", it.tags);
  return rows;
}

}  // namespace spotter::world
