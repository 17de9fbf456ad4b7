#include <algorithm>

#include "tests/world/auto_scaling.hpp"

namespace spotter::world {
namespace {

template <class Rows, class Body>
void members(Xml& xml, std::string_view name, const Rows& rows, Body body) {
  xml.element(name, [&] {
    for (const auto& row : rows) xml.element("member", [&] { body(row); });
  });
}

// Sent parameters ("Overrides.member.1.InstanceType") as nested elements.
void write_nested(Xml& xml, const std::map<std::string, std::string>& sent) {
  std::map<std::string, std::map<std::string, std::string>> groups;
  for (const auto& [name, value] : sent) {
    const std::size_t dot = name.find('.');
    groups[name.substr(0, dot)][dot == name.npos ? "" : name.substr(dot + 1)] = value;
  }
  for (const auto& [name, below] : groups) {
    if (const auto leaf = below.find(""); leaf != below.end()) {
      xml.text(name, leaf->second);
    } else if (name == "member") {  // by the numbers below
      const Query query(sent);
      for (const std::string& it : query.members("member"))
        xml.element("member", [&] { write_nested(xml, query.below(it)); });
    } else {
      xml.element(name, [&, &inner = below] { write_nested(xml, inner); });
    }
  }
}

std::string account_of(const Cloud& cloud) {
  return cloud.settings.region.str() + ":" + cloud.settings.account;
}

// Includes instances that are on their way out, but none that have ended.
std::vector<Instance> shown_instances(const Cloud& cloud, const FleetRequest& group) {
  std::vector<Instance> found;
  for (const InstanceId& id : group.instances) {
    const Instance& it = *cloud.instances.find(id);
    if (it.state != InstanceState::Terminated) found.push_back(it);
  }
  return found;
}

void write_instance(Xml& xml, const Instance& it) {
  xml.text("InstanceId", it.id.view());
  xml.text("InstanceType", it.type.view());
  xml.text("AvailabilityZone", it.zone.view());
  xml.text("LifecycleState", lifecycle_state(it));
  xml.text("HealthStatus", "Healthy");
  xml.value("ProtectedFromScaleIn", false);
}

void write_tags_of(Xml& xml, const FleetRequest& group) {
  members(xml, "Tags", group.tags, [&](const auto& tag) {
    xml.text("ResourceId", group.fleet.id.view());
    xml.text("ResourceType", "auto-scaling-group");
    xml.text("Key", tag.first);
    xml.text("Value", tag.second);
    xml.value("PropagateAtLaunch", group.group->at_launch.count(tag.first) != 0);
  });
}

void write_group(Xml& xml, const Cloud& cloud, const FleetRequest& group, bool with_instances) {
  const Query query(group.sent);
  const std::string name = group.fleet.id.str();
  xml.text("AutoScalingGroupName", name);
  xml.text("AutoScalingGroupARN", "arn:aws:autoscaling:" + account_of(cloud) +
                                      ":autoScalingGroup:u:autoScalingGroupName/" + name);
  for (const char* part : {"LaunchTemplate", "MixedInstancesPolicy"}) {
    const auto sent = query.below(std::string(part) + ".");
    if (!sent.empty()) xml.element(part, [&] { write_nested(xml, sent); });
  }
  xml.value("MinSize", group.group->least);
  xml.value("MaxSize", group.group->most);
  xml.value("DesiredCapacity", group.target);
  xml.value("DefaultCooldown", 300);
  std::set<std::string> zones;
  for (const LaunchOption& it : group.options) zones.insert(it.zone.str());
  xml.element("AvailabilityZones", [&] {
    for (const std::string& zone : zones) xml.text("member", zone);
  });
  xml.text("HealthCheckType", "EC2");
  xml.value("HealthCheckGracePeriod", 0);
  if (with_instances)
    members(xml, "Instances", shown_instances(cloud, group),
            [&](const Instance& it) { write_instance(xml, it); });
  xml.text("CreatedTime", xml_time(cloud.wall(group.created)));
  members(xml, "SuspendedProcesses", group.group->suspended, [&](const std::string& process) {
    xml.text("ProcessName", process);
    xml.text("SuspensionReason", "User suspended");
  });
  xml.text("VPCZoneIdentifier", query.text("VPCZoneIdentifier"));
  write_tags_of(xml, group);
  xml.value("NewInstancesProtectedFromScaleIn", false);
  xml.value("CapacityRebalance", query.boolean("CapacityRebalance"));
}

// Filters of Auto Scaling are lists in another form.
bool passes_filters(const Query& query, const FleetRequest& group) {
  std::vector<Filter> filters;
  for (const std::string& it : query.members("Filters.member"))
    filters.push_back({query.required(it + "Name"), query.list(it + "Values.member")});
  return filters.empty() || passes(filters, {}, group.tags);
}

Answer describe_groups(Session& session) {
  const auto names = session.query.list("AutoScalingGroupNames.member");
  std::vector<FleetRequest> rows;
  session.cloud.fleets.each_seen(session.cloud.now, [&](const FleetRequest& it) {
    if (!it.group || !passes_filters(session.query, it)) return;
    const bool named = names.empty() || std::ranges::find(names, it.fleet.id.str()) != names.end();
    if (named) rows.push_back(it);
  });
  const auto shown = page(std::move(rows), session.query);
  const bool with_instances = session.query.text("IncludeInstances", "true") != "false";
  Xml xml;
  members(xml, "AutoScalingGroups", shown.rows,
          [&](const FleetRequest& it) { write_group(xml, session.cloud, it, with_instances); });
  xml.optional("NextToken", shown.next);
  return xml;
}

Answer describe_group_instances(Session& session) {
  const auto ids = session.query.list("InstanceIds.member");
  std::vector<Instance> rows;
  session.cloud.fleets.each([&](const FleetRequest& group) {
    if (!group.group) return;
    for (Instance& it : shown_instances(session.cloud, group)) {
      const bool named = ids.empty() || std::ranges::find(ids, it.id.str()) != ids.end();
      if (named) rows.push_back(std::move(it));
    }
  });
  const auto shown = page(std::move(rows), session.query);
  Xml xml;
  members(xml, "AutoScalingInstances", shown.rows, [&](const Instance& it) {
    write_instance(xml, it);
    xml.text("AutoScalingGroupName", it.fleet.id.view());
  });
  xml.optional("NextToken", shown.next);
  return xml;
}

// The newest first; what launched is Successful.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_Activity.html
Answer describe_activities(Session& session) {
  const Cloud& cloud = session.cloud;
  const auto group =
      Groups(session.cloud).find(FleetId(session.query.required("AutoScalingGroupName")));
  if (!group) return tl::unexpected(group.error());
  std::vector<HistoryEvent> rows = events_of(cloud, *group);
  std::erase_if(rows, [](const HistoryEvent& event) {
    return event.kind != "instance-launched" && event.kind != "launch-failed" &&
           event.kind != "fleet-no-capacity";
  });
  std::ranges::reverse(rows);
  const auto shown = page(std::move(rows), session.query);
  std::size_t number = 0;
  Xml xml;
  members(xml, "Activities", shown.rows, [&](const HistoryEvent& event) {
    const bool failed = event.kind != "instance-launched";
    const std::string at = xml_time(cloud.wall(event.at));
    xml.text("ActivityId", at + "-" + std::to_string(++number));
    xml.text("AutoScalingGroupName", group->fleet.id.view());
    xml.text("Description", "Launching a new EC2 instance" +
                                (failed ? std::string(".  Status Reason: ") + event.detail
                                        : ": " + event.subject));
    xml.text("Cause", "At " + at +
                          " an instance was started in response to a difference between "
                          "desired and actual capacity.");
    xml.text("StartTime", at);
    xml.text("EndTime", at);
    xml.text("StatusCode", failed ? "Failed" : "Successful");
    if (failed) xml.text("StatusMessage", event.detail + ". Launching EC2 instance failed.");
    xml.value("Progress", 100);
  });
  xml.optional("NextToken", shown.next);
  return xml;
}

Answer describe_hooks(Session& session) {
  const auto group =
      Groups(session.cloud).find(FleetId(session.query.required("AutoScalingGroupName")));
  if (!group) return tl::unexpected(group.error());
  const auto names = session.query.list("LifecycleHookNames.member");
  auto hooks = group->group->hooks;
  std::erase_if(hooks, [&](const auto& it) {
    return !names.empty() && std::ranges::find(names, it.first) == names.end();
  });
  Xml xml;
  members(xml, "LifecycleHooks", hooks, [&](const auto& it) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(it.second.timeout);
    xml.text("LifecycleHookName", it.first);
    xml.text("AutoScalingGroupName", group->fleet.id.view());
    xml.text("LifecycleTransition", it.second.transition);
    xml.value("HeartbeatTimeout", seconds.count());
    xml.value("GlobalTimeout", 100 * seconds.count());
    xml.text("DefaultResult", it.second.outcome);
  });
  return xml;
}

}  // namespace

void add_group_descriptions(Operations& operations) {
  operations["DescribeAutoScalingGroups"] = describe_groups;
  operations["DescribeAutoScalingInstances"] = describe_group_instances;
  operations["DescribeScalingActivities"] = describe_activities;
  operations["DescribeLifecycleHooks"] = describe_hooks;
}

}  // namespace spotter::world
