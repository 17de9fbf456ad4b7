#include "tests/world/auto_scaling.hpp"

#include "tests/world/ec2_access.hpp"

namespace spotter::world {
namespace {

constexpr const char* space = "xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"";
constexpr const char* distribution = "MixedInstancesPolicy.InstancesDistribution.";
constexpr const char* mixed = "MixedInstancesPolicy.LaunchTemplate.";

FleetId name_of(const Query& query) {
  const std::string name = query.required("AutoScalingGroupName");
  if (!FleetId::fits(name)) query.refuse("ValidationError", "The name is too long.");
  if (name.find(':') != name.npos)
    query.refuse("ValidationError", "The name must not contain a colon.");
  return FleetId(name);
}

Answer done(const Expected<void>& result) {
  return result ? Answer(Xml()) : tl::unexpected(result.error());
}

LifecycleHook hook_of(const Query& query, const std::string& prefix) {
  LifecycleHook hook;
  hook.transition = query.text(prefix + "LifecycleTransition");
  if (const auto seconds = query.integer(prefix + "HeartbeatTimeout"))
    hook.timeout = Duration{*seconds * 1000LL};
  constexpr Range allowed{Duration{30'000}, Duration{7'200'000}};
  if (hook.timeout < allowed.least || hook.timeout > allowed.most)
    query.refuse("ValidationError", "HeartbeatTimeout must be between 30 and 7200 seconds.");
  hook.outcome = query.text(prefix + "DefaultResult", hook.outcome);
  return hook;
}

// One option for each type and zone.
std::vector<LaunchOption> options_of(Session& session, const FleetRequest& group) {
  const Query& query = session.query;
  const bool plain = !query.below("LaunchTemplate.").empty();
  const std::string prefix =
      plain ? "LaunchTemplate." : std::string(mixed) + "LaunchTemplateSpecification.";
  const TemplateReference reference{query.text(prefix + "LaunchTemplateId"),
                                    query.text(prefix + "LaunchTemplateName"),
                                    query.text(prefix + "Version", "$Default")};
  const Templates templates(session.cloud);
  const auto version = templates.version(reference);
  if (!version) {
    query.refuse("ValidationError", version.error().message);
    return {};
  }
  if (const auto why = refuse_more_disks(*version)) query.refuse("ValidationError", why->message);
  LaunchOption base = option_of(*templates.find(reference), *version);
  for (const auto& [key, value] : group.tags)
    if (group.group->at_launch.count(key) != 0) base.instance_tags[key] = value;
  std::vector<std::string> overrides = query.members(std::string(mixed) + "Overrides.member");
  if (overrides.empty()) overrides.push_back("(none)");
  std::string zones;
  for (const std::string& zone : query.list("AvailabilityZones.member")) {
    zones += zone + ",";
    if (!session.cloud.has_zone(Zone(zone)))
      query.refuse("ValidationError", "One or more Availability Zones are not valid: " + zone);
  }
  const std::string subnets = query.text("VPCZoneIdentifier");
  if (zones.empty() && subnets.empty())
    query.refuse("ValidationError", "At least one Availability Zone or VPC Subnet is required.");
  std::vector<LaunchOption> options;
  for (const std::string& it : overrides) {
    LaunchOption option = base;
    option.type = InstanceType(query.text(it + "InstanceType", option.type.str()));
    if (option.type.empty()) option.type = InstanceType(session.cloud.settings.default_type);
    option.weight = query.decimal(it + "WeightedCapacity", 1);
    option.max_price =
        price_parameter(query, std::string(distribution) + "SpotMaxPrice", option.max_price);
    option.priority = static_cast<double>(&it - overrides.data());
    for (const Site& site : sites(session, subnets.empty() ? zones : "", subnets)) {
      option.zone = site.zone;
      option.subnet = site.subnet;
      options.push_back(option);
    }
  }
  return options;
}

void read_tags(const Query& query, FleetRequest& group) {
  for (const std::string& it : query.members("Tags.member")) {
    const std::string key = query.required(it + "Key");
    group.tags[key] = query.text(it + "Value");
    group.group->at_launch.erase(key);
    if (query.boolean(it + "PropagateAtLaunch")) group.group->at_launch.insert(key);
  }
}

// A group of everything that was ever sent of it. `group`: what it was before.
FleetRequest group_of(Session& session, FleetRequest group) {
  const Query& query = session.query;
  GroupPart& part = *group.group;
  part.least = query.integer("MinSize").value_or(part.least);
  part.most = query.integer("MaxSize").value_or(part.most);
  const std::string shares = distribution;
  const bool is_mixed = !query.below("MixedInstancesPolicy.").empty();
  part.on_demand_base = query.integer(shares + "OnDemandBaseCapacity").value_or(0);
  part.on_demand_percentage =
      query.integer(shares + "OnDemandPercentageAboveBaseCapacity").value_or(100);
  group.allocation =
      is_mixed ? query.text(shares + "SpotAllocationStrategy", "lowest-price") : "lowest-price";
  group.on_demand_allocation = query.text(shares + "OnDemandAllocationStrategy", "prioritized");
  // "Auto Scaling ... attempts to launch a new Spot Instance; after launching it, it terminates an
  // old instance": ec2-auto-scaling-capacity-rebalancing.html
  group.rebalancing.reset();
  if (query.boolean("CapacityRebalance")) group.rebalancing = Rebalancing{Duration{120'000}};
  group.options = options_of(session, group);
  group.sent = query.all();
  return group;
}

Answer create(Session& session) {
  const Query& query = session.query;
  FleetRequest group;
  group.fleet = {FleetKind::AutoScalingGroup, name_of(query)};
  group.group.emplace();
  query.required("MinSize");
  query.required("MaxSize");
  read_tags(query, group);
  for (const std::string& it : query.members("LifecycleHookSpecificationList.member"))
    group.group->hooks[query.required(it + "LifecycleHookName")] = hook_of(query, it);
  group = group_of(session, std::move(group));
  group.target = query.integer("DesiredCapacity").value_or(group.group->least);
  SPOTTER_CHECK_QUERY(session);
  return done(Groups(session.cloud).create(std::move(group)));
}

// The members of a list are replaced together, all else one by one.
std::map<std::string, std::string> merged(std::map<std::string, std::string> before,
                                          const std::map<std::string, std::string>& now) {
  for (const auto& [name, value] : now) {
    const auto list = name.find(".member.");
    if (list == name.npos) continue;
    const std::string prefix = name.substr(0, list + 8);
    std::erase_if(before, [&](const auto& it) { return it.first.starts_with(prefix); });
  }
  if (now.count("AvailabilityZones.member.1")) before.erase("VPCZoneIdentifier");
  for (const auto& [name, value] : now) before[name] = value;
  return before;
}

Answer update(Session& session) {
  auto found = Groups(session.cloud).find(name_of(session.query));
  if (!found) return tl::unexpected(found.error());
  const auto all = merged(found->sent, session.query.all());
  const Query query(all);
  Session whole{session.cloud, query};
  FleetRequest group = group_of(whole, std::move(*found));
  group.target = session.query.integer("DesiredCapacity")
                     .value_or(std::clamp(group.target, group.group->least, group.group->most));
  SPOTTER_CHECK_QUERY(whole);
  SPOTTER_CHECK_QUERY(session);
  return done(Groups(session.cloud).update(group));
}

Answer set_desired(Session& session) {
  const FleetId name = name_of(session.query);
  session.query.required("DesiredCapacity");
  const int capacity = session.query.integer("DesiredCapacity").value_or(0);
  SPOTTER_CHECK_QUERY(session);
  return done(Groups(session.cloud).set_desired(name, capacity));
}

Answer terminate(Session& session) {
  const InstanceId id(session.query.required("InstanceId"));
  const bool decrement = session.query.boolean("ShouldDecrementDesiredCapacity");
  SPOTTER_CHECK_QUERY(session);
  if (auto ended = Groups(session.cloud).terminate(id, decrement); !ended)
    return tl::unexpected(ended.error());
  Xml xml;
  xml.element("Activity", [&] {
    xml.text("ActivityId", session.cloud.random.uuid());
    xml.text("AutoScalingGroupName", session.cloud.instances.find(id)->fleet.id.view());
    xml.text("Cause", "instance " + id.str() + " was taken out of service by a user request");
    xml.text("StartTime", xml_time(session.cloud.wall(session.cloud.now)));
    xml.text("StatusCode", "InProgress");
    xml.value("Progress", 0);
  });
  return xml;
}

Answer complete(Session& session) {
  const Query& query = session.query;
  const LifecycleCompletion it{name_of(query), query.required("LifecycleHookName"),
                               InstanceId(query.required("InstanceId")),
                               query.required("LifecycleActionResult") == "ABANDON"};
  SPOTTER_CHECK_QUERY(session);
  return done(Groups(session.cloud).complete(it));
}

Answer put_hook(Session& session) {
  const FleetId name = name_of(session.query);
  const std::string hook = session.query.required("LifecycleHookName");
  const LifecycleHook data = hook_of(session.query, "");
  SPOTTER_CHECK_QUERY(session);
  return done(Groups(session.cloud).put_hook(name, hook, data));
}

template <bool on>
Answer suspend(Session& session) {
  const FleetId name = name_of(session.query);
  SPOTTER_CHECK_QUERY(session);
  return done(
      Groups(session.cloud).suspend(name, session.query.list("ScalingProcesses.member"), on));
}

// Each tag names its group.
Answer tag(Session& session) {
  const Query& query = session.query;
  for (const std::string& it : query.members("Tags.member")) {
    const FleetId name(query.required(it + "ResourceId"));
    auto group = Groups(session.cloud).find(name);
    if (!group) return tl::unexpected(group.error());
    FleetRequest& its = session.cloud.fleets.change(name, session.cloud.now, session.cloud.lag());
    const std::string key = query.required(it + "Key");
    its.tags[key] = query.text(it + "Value");
    its.group->at_launch.erase(key);
    if (query.boolean(it + "PropagateAtLaunch")) its.group->at_launch.insert(key);
  }
  SPOTTER_CHECK_QUERY(session);
  return Xml();
}

const Operations& group_operations() {
  static const Operations all = [] {
    Operations made = {{"CreateAutoScalingGroup", create},
                       {"UpdateAutoScalingGroup", update},
                       {"SetDesiredCapacity", set_desired},
                       {"TerminateInstanceInAutoScalingGroup", terminate},
                       {"CompleteLifecycleAction", complete},
                       {"PutLifecycleHook", put_hook},
                       {"SuspendProcesses", suspend<true>},
                       {"ResumeProcesses", suspend<false>},
                       {"CreateOrUpdateTags", tag}};
    add_group_descriptions(made);
    return made;
  }();
  return all;
}

// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html
Reply group_error(Cloud& cloud, const ApiError& error) {
  Xml xml;
  xml.element("Error", [&] {
    xml.text("Type", error.http_status < 500 ? "Sender" : "Receiver");
    xml.text("Code", error.code == "RequestLimitExceeded" ? "Throttling" : error.code);
    xml.text("Message", error.message);
  });
  xml.text("RequestId", cloud.random.uuid());
  return {.status = error.http_status,
          .body = std::string("<ErrorResponse ") + space + ">" + xml.str() + "</ErrorResponse>"};
}

Reply group_success(Cloud& cloud, const std::string& action, const Xml& inner) {
  Xml metadata;
  metadata.element("ResponseMetadata", [&] { metadata.text("RequestId", cloud.random.uuid()); });
  const std::string result = "<" + action + "Result>" + inner.str() + "</" + action + "Result>";
  return {.body = "<" + action + "Response " + space + ">" + result + metadata.str() + "</" +
                  action + "Response>"};
}

Reply group_answer(Cloud& cloud, const Call& call) {
  for (const AccessRequest& it : auto_scaling_access(cloud, call)) {
    if (!cloud.access || cloud.access->allows(call.caller, it)) continue;
    return group_error(cloud, {"AccessDenied", denial(cloud, call.caller, it), 403});
  }
  auto parameters = call.parameters;
  for (const char* name : {"Action", "Version"}) parameters.erase(name);
  if (parameters.count("MaxRecords")) parameters["MaxResults"] = parameters["MaxRecords"];
  const Query query(parameters);
  constexpr int most_records = 100;
  if (query.integer("MaxRecords").value_or(1) > most_records)
    return group_error(cloud, {"ValidationError", "MaxRecords must not be greater than 100."});
  if (const auto why = refuse_members(auto_scaling_members().at(call.action), call.parameters))
    return group_error(cloud, {"ValidationError", *why});
  Session session{cloud, query};
  const Answer result = group_operations().at(call.action)(session);
  if (query.error()) return group_error(cloud, *query.error());
  if (!result) return group_error(cloud, result.error());
  return group_success(cloud, call.action, *result);
}

}  // namespace

Reply World::auto_scaling(const Call& call, Time now) {
  enter(now);
  Reply reply;
  if (!group_operations().count(call.action)) {
    reply = group_error(cloud_, {"InvalidAction", "Could not find operation " + call.action +
                                                      " for version 2011-01-01"});
  } else {
    const Admission admission = admit(call.action, now);
    const bool refused = admission.error && !admission.carry_out;
    reply = refused ? group_error(cloud_, *admission.error) : group_answer(cloud_, call);
    reply.delay = admission.delay;
    reply.drop = admission.drop;
  }
  reply.headers["Date"] = http_date(cloud_.wall(cloud_.now));
  return reply;
}

}  // namespace spotter::world
