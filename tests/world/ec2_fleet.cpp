#include <set>
#include <tuple>

#include "tests/world/ec2_api.hpp"
#include "tests/world/reservations.hpp"

namespace spotter::world {

namespace {

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html: "instant",
// "request", "maintain"
FleetType type_of(const Query& query) {
  const std::string text = query.text("Type", "maintain");
  if (text == "request") return FleetType::Request;
  if (text == "instant") return FleetType::Instant;
  if (text != "maintain") query.refuse("InvalidParameterValue", "Invalid fleet type: " + text);
  return FleetType::Maintain;
}

std::string_view name(FleetType type) {
  constexpr std::string_view names[] = {"maintain", "request", "instant"};
  return names[static_cast<std::size_t>(type)];
}

void write_origin(Xml& xml, const FleetRequest& fleet, const Instance& instance) {
  const auto option = std::find_if(
      fleet.options.begin(), fleet.options.end(),
      [&](const LaunchOption& it) { return it.zone == instance.zone && it.type == instance.type; });
  xml.element("launchTemplateAndOverrides", [&] {
    xml.element("launchTemplateSpecification", [&] {
      xml.text("launchTemplateId", instance.template_id);
      if (option != fleet.options.end()) xml.text("version", option->template_version);
    });
    xml.element("overrides", [&] {
      xml.text("instanceType", instance.type.view());
      xml.text("availabilityZone", instance.zone.view());
    });
  });
  // InstanceLifecycle has no word for an instance of a capacity block.
  const std::string lifecycle = lifecycle_of(instance);
  xml.optional("lifecycle", lifecycle == block_market ? "" : lifecycle);
}

// Only for fleets of type instant.
void write_launched(Xml& xml, Cloud& cloud, const FleetRequest& fleet) {
  xml.items("errorSet", fleet.errors, [&](const LaunchError& it) {
    xml.text("errorCode", it.error.code);
    xml.text("errorMessage", it.error.message);
    if (fleet.reserved.empty()) xml.text("lifecycle", it.spot ? "spot" : "on-demand");
  });
  std::map<std::tuple<InstanceType, Zone, bool>, std::vector<InstanceId>> pools;
  for (const InstanceId& id : fleet.instances) {
    const Instance& it = *cloud.instances.find(id);
    pools[{it.type, it.zone, is_spot(it)}].push_back(id);
  }
  xml.items("fleetInstanceSet", pools, [&](const auto& pool) {
    const Instance& instance = *cloud.instances.find(pool.second.front());
    write_origin(xml, fleet, instance);
    xml.element("instanceIds", [&] {
      for (const InstanceId& id : pool.second) xml.text("item", id.view());
    });
    xml.text("instanceType", instance.type.view());
  });
}

void check_excess_policy(const Query& query) {
  const std::string policy = query.text("ExcessCapacityTerminationPolicy", "termination");
  if (policy != "termination" && policy != "no-termination")
    query.refuse("InvalidParameterValue", "Invalid excess capacity termination policy: " + policy);
}

constexpr const char* reserved_capacity = "reserved-capacity";

bool is_of_reservations(const std::string& capacity_type) {
  return capacity_type == reserved_capacity || capacity_type == block_market;
}

// Of the total target capacity, where the request says it in one of the three ways.
std::optional<int> on_demand_share(const Query& query) {
  const std::string capacity = "TargetCapacitySpecification.";
  query.required(capacity + "TotalTargetCapacity");
  const int total = query.integer(capacity + "TotalTargetCapacity").value_or(0);
  const auto on_demand = query.integer(capacity + "OnDemandTargetCapacity");
  const auto spot = query.integer(capacity + "SpotTargetCapacity");
  const std::string rest = query.text(capacity + "DefaultTargetCapacityType");
  if (is_of_reservations(rest)) return total;  // no spot instance is among them
  if (!rest.empty() && rest != "spot" && rest != "on-demand")
    query.refuse("InvalidParameterValue", "Invalid default target capacity type: " + rest);
  if (on_demand.value_or(0) + spot.value_or(0) > total)
    query.refuse("InvalidParameterValue",
                 "The sum of on-demand and spot target capacity exceeds the total target capacity");
  if (rest == "on-demand") return total - spot.value_or(0);
  if (on_demand || rest == "spot") return on_demand.value_or(0);
  return spot ? std::optional(total - *spot) : std::nullopt;
}

// A fleet of type instant launches from reservations alone: the target in full,
// with templates that name reservations of that kind.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReservedCapacityOptionsRequest.html
void check_reserved(const Query& query, const FleetRequest& request) {
  const auto wrong = [&](const char* why) { query.refuse("InvalidParameterCombination", why); };
  const bool reserved = request.reserved == reserved_capacity;
  const auto types = query.list("ReservedCapacityOptions.ReservationType");
  if (reserved != !types.empty())
    wrong(
        "DefaultTargetCapacityType reserved-capacity and ReservedCapacityOptions need each other");
  const std::string market = reserved ? interruptible_market : request.reserved;
  for (const LaunchOption& it : request.options)
    if (it.reserved.market != market)
      wrong("The launch template's market type does not fit DefaultTargetCapacityType");
  if (request.reserved.empty()) return;
  if (request.type != FleetType::Instant) wrong("Reserved capacity needs a fleet of type instant");
  const std::string capacity = "TargetCapacitySpecification.";
  for (const char* beside : {"OnDemandTargetCapacity", "SpotTargetCapacity"})
    if (query.has(capacity + beside)) wrong("Nothing can be asked for beside reserved capacity");
  if (!query.below("SpotOptions.").empty() || !query.below("OnDemandOptions.").empty())
    wrong("Options of other capacity cannot be used with reserved capacity");
}

// Capacity of neither kind is of the default one, which then has to be said.
void check_sum(const Query& query, int total) {
  const std::string capacity = "TargetCapacitySpecification.";
  int sum = 0;
  for (const char* kind : {"OnDemandTargetCapacity", "SpotTargetCapacity"})
    sum += query.integer(capacity + kind).value_or(0);
  if (sum < total) query.required(capacity + "DefaultTargetCapacityType");
}

Answer create_fleet(Session& session) {
  const Query& query = session.query;
  const std::string capacity = "TargetCapacitySpecification.";
  FleetRequest request{
      .fleet = {FleetKind::Ec2Fleet, {}},
      .type = type_of(query),
      .allocation = strategy_parameter(query, "SpotOptions.AllocationStrategy", spot_strategies()),
      .on_demand_allocation =
          strategy_parameter(query, "OnDemandOptions.AllocationStrategy", on_demand_strategies()),
      .rebalancing = rebalancing_parameter(
          query, "SpotOptions.MaintenanceStrategies.CapacityRebalance.", type_of(query)),
      .excess_policy = query.text("ExcessCapacityTerminationPolicy", "termination"),
      .client_token = query.text("ClientToken"),
      .terminate_with_expiration = query.boolean("TerminateInstancesWithExpiration"),
      .replace_unhealthy = query.boolean("ReplaceUnhealthyInstances"),
      .valid_from = time_parameter(session, "ValidFrom"),
      .valid_until = time_parameter(session, "ValidUntil"),
      .tags = query.tags_for("fleet"),
      .sent = query.all()};
  check_excess_policy(query);
  request.target = query.integer(capacity + "TotalTargetCapacity").value_or(0);
  request.on_demand_target = on_demand_share(query).value_or(0);
  request.when_interrupted = behaviour_parameter(query, "SpotOptions.InstanceInterruptionBehavior");
  check_behaviour(query, request);
  check_sum(query, request.target);
  const std::string of_type = query.text(capacity + "DefaultTargetCapacityType");
  if (is_of_reservations(of_type)) request.reserved = of_type;
  request.options = template_options(session, "LaunchTemplateConfigs");
  const Tags instance_tags = query.tags_for("instance");  // honoured for instant fleets alone
  for (LaunchOption& option : request.options) {
    if (request.type != FleetType::Instant) break;
    for (const auto& [key, value] : instance_tags) option.instance_tags[key] = value;
  }
  if (request.options.empty()) query.required("LaunchTemplateConfigs");
  check_reserved(query, request);
  SPOTTER_CHECK_QUERY(session);
  std::set<std::tuple<std::string, std::string, std::string>> pools;
  for (const LaunchOption& it : request.options)
    if (!pools.emplace(it.type.str(), it.zone.str(), it.subnet).second)
      return refusal("InvalidFleetConfig",
                     "The fleet configuration contains duplicate instance pools");
  const auto made = Fleets(session.cloud).create(std::move(request));
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  xml.text("fleetId", made->fleet.id.view());
  if (made->type == FleetType::Instant) write_launched(xml, session.cloud, *made);
  return xml;
}

void write_fleet(Xml& xml, Cloud& cloud, const FleetRequest& fleet) {
  xml.text("fleetId", fleet.fleet.id.view());
  xml.text("fleetState", name(fleet.state, FleetKind::Ec2Fleet));
  xml.text("activityStatus", Fleets(cloud).activity(fleet));
  xml.text("createTime", xml_time(cloud.wall(fleet.created)));
  xml.value("fulfilledCapacity", Fleets(cloud).fulfilled(fleet));
  xml.value("fulfilledOnDemandCapacity",
            fleet.reserved.empty() ? Fleets(cloud).fulfilled(fleet, false) : 0);
  std::map<std::string, std::string> shown = fleet.sent;
  static const std::set<std::string> echoed = {"LaunchTemplateConfigs",
                                               "TargetCapacitySpecification",
                                               "SpotOptions",
                                               "OnDemandOptions",
                                               "ReservedCapacityOptions",
                                               "ClientToken",
                                               "ValidFrom",
                                               "ValidUntil",
                                               "Context"};
  std::erase_if(
      shown, [&](const auto& it) { return !echoed.count(it.first.substr(0, it.first.find('.'))); });
  shown["TargetCapacitySpecification.TotalTargetCapacity"] = std::to_string(fleet.target);
  const int on_demand_target = fleet.reserved.empty() ? fleet.on_demand_target : 0;
  shown["TargetCapacitySpecification.OnDemandTargetCapacity"] = std::to_string(on_demand_target);
  shown["TargetCapacitySpecification.SpotTargetCapacity"] =
      std::to_string(fleet.target - fleet.on_demand_target);
  shown["ExcessCapacityTerminationPolicy"] = fleet.excess_policy;
  shown["Type"] = name(fleet.type);
  shown["TerminateInstancesWithExpiration"] = fleet.terminate_with_expiration ? "true" : "false";
  shown["ReplaceUnhealthyInstances"] = fleet.replace_unhealthy ? "true" : "false";
  write_sent(xml, shown, {{"ReservationType", {"reservationTypeSet", "item"}}});
  write_tags(xml, fleet.tags);
  if (fleet.type == FleetType::Instant) write_launched(xml, cloud, fleet);
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeFleets.html, Filters
// "If a fleet is of type instant, you must specify the fleet ID, otherwise the fleet does not
// appear in the response."
Answer describe_fleets(Session& session) {
  std::vector<FleetRequest> rows = Fleets(session.cloud).list(FleetKind::Ec2Fleet);
  const auto ids = session.query.list("FleetId");
  if (ids.empty())
    std::erase_if(rows, [](const FleetRequest& it) { return it.type == FleetType::Instant; });
  const auto page = select<FleetRequest>(
      session, std::move(rows), ids, "InvalidFleetId.NotFound",
      {"activity-status", "excess-capacity-termination-policy", "fleet-state",
       "replace-unhealthy-instances", "type"},
      [&](const FleetRequest& it) -> Facts {
        return {{"activity-status", Fleets(session.cloud).activity(it)},
                {"excess-capacity-termination-policy", it.excess_policy},
                {"fleet-state", std::string(name(it.state, FleetKind::Ec2Fleet))},
                {"replace-unhealthy-instances", it.replace_unhealthy ? "true" : "false"},
                {"type", std::string(name(it.type))}};
      },
      [](const FleetRequest& it) { return it.fleet.id.str(); });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("fleetSet", page->rows,
            [&](const FleetRequest& it) { write_fleet(xml, session.cloud, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

Answer describe_fleet_instances(Session& session) {
  const FleetId id(session.query.required("FleetId"));
  const auto filters = session.query.filters();
  if (auto checked = check_filters(filters, {"instance-type"}); !checked) {
    return tl::unexpected(checked.error());
  }
  SPOTTER_CHECK_QUERY(session);
  const FleetRequest* fleet = Fleets(session.cloud).seen(id);
  if (!fleet || fleet->fleet.kind != FleetKind::Ec2Fleet) {
    return refusal("InvalidFleetId.NotFound", "The fleet ID '" + id.str() + "' does not exist");
  }
  if (fleet->type == FleetType::Instant)
    return refusal("UnsupportedOperation",
                   "DescribeFleetInstances does not support fleets of type instant");
  std::vector<Instance> rows = Fleets(session.cloud).living(*fleet);
  std::erase_if(rows, [&](const Instance& it) {
    return !passes(filters, {{"instance-type", it.type.str()}}, it.tags);
  });
  const auto shown = page(std::move(rows), session.query);
  Xml xml;
  xml.text("fleetId", id.view());
  xml.items("activeInstanceSet", shown.rows, [&](const Instance& it) {
    xml.text("instanceId", it.id.view());
    xml.text("instanceType", it.type.view());
    xml.optional("spotInstanceRequestId", it.spot_request);
    xml.text("instanceHealth", "healthy");
  });
  xml.optional("nextToken", shown.next);
  return xml;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_HistoryRecordEntry.html
Answer describe_fleet_history(Session& session) {
  const FleetId id(session.query.required("FleetId"));
  const auto start = time_parameter(session, "StartTime");
  if (!start) session.query.required("StartTime");
  SPOTTER_CHECK_QUERY(session);
  const FleetRequest* fleet = Fleets(session.cloud).seen(id);
  if (!fleet || fleet->fleet.kind != FleetKind::Ec2Fleet) {
    return refusal("InvalidFleetId.NotFound", "The fleet ID '" + id.str() + "' does not exist");
  }
  static const HistoryForm form = {
      "fleetId",
      {{"fleet-submitted", {"fleet-change", "submitted"}},
       {"fleet-active", {"fleet-change", "active"}},
       {"fleet-modified", {"fleet-change", "modify_in_progress"}},
       {"fleet-cancelled", {"fleet-change", "deleted_terminating"}},
       {"fleet-ended", {"fleet-change", "deleted"}},
       {"instance-launched", {"instance-change", "launched"}},
       {"instance-terminated", {"instance-change", "terminated"}},
       {"launch-failed", {"service-error", "InvalidParameterValue"}},
       {"fleet-no-capacity", {"service-error", "InsufficientInstanceCapacity"}}}};
  return history_of(session, *fleet, *start, form);
}

Answer modify_fleet(Session& session) {
  const Query& query = session.query;
  const std::string capacity = "TargetCapacitySpecification.";
  ModifyFleet request{.id = FleetId(query.required("FleetId")),
                      .target = query.integer(capacity + "TotalTargetCapacity"),
                      .on_demand = {}};
  if (!query.below(capacity).empty()) request.on_demand = on_demand_share(query);
  if (query.has("ExcessCapacityTerminationPolicy")) {
    request.excess_policy = query.text("ExcessCapacityTerminationPolicy");
    check_excess_policy(query);
  }
  SPOTTER_CHECK_QUERY(session);
  const auto done = Fleets(session.cloud).modify(request, FleetKind::Ec2Fleet);
  if (!done) return tl::unexpected(done.error());
  return returned_true();
}

Answer delete_fleets(Session& session) {
  std::vector<FleetId> ids;
  for (const std::string& id : session.query.list("FleetId")) ids.emplace_back(id);
  if (ids.empty()) session.query.required("FleetId");
  session.query.required("TerminateInstances");
  const bool terminate = session.query.boolean("TerminateInstances");
  SPOTTER_CHECK_QUERY(session);
  const auto results = Fleets(session.cloud).cancel(ids, FleetKind::Ec2Fleet, terminate);
  Xml xml;
  const auto write = [&](const char* element, bool failed, auto body) {
    std::vector<FleetCancellation> chosen = results;
    std::erase_if(chosen, [&](const auto& it) { return it.error.has_value() != failed; });
    xml.items(element, chosen, [&](const FleetCancellation& it) {
      xml.text("fleetId", it.id.view());
      body(it);
    });
  };
  write("unsuccessfulFleetDeletionSet", true,
        [&](const FleetCancellation& it) { write_id_error(xml, *it.error); });
  write("successfulFleetDeletionSet", false, [&](const FleetCancellation& it) {
    xml.text("currentFleetState", name(it.after, FleetKind::Ec2Fleet));
    xml.text("previousFleetState", name(it.before, FleetKind::Ec2Fleet));
  });
  return xml;
}

}  // namespace

void add_fleet_operations(Operations& operations) {
  operations["CreateFleet"] = create_fleet;
  operations["DescribeFleets"] = describe_fleets;
  operations["DescribeFleetInstances"] = describe_fleet_instances;
  operations["DescribeFleetHistory"] = describe_fleet_history;
  operations["ModifyFleet"] = modify_fleet;
  operations["DeleteFleets"] = delete_fleets;
}

}  // namespace spotter::world
