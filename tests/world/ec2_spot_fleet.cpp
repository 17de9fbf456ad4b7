#include "tests/world/ec2_api.hpp"

namespace spotter::world {

namespace {

constexpr const char* prefix = "SpotFleetRequestConfig.";
constexpr const char* not_found = "InvalidSpotFleetRequestId.NotFound";

FleetType type_of(const Query& query, const std::string& text) {
  if (text == "request") return FleetType::Request;
  if (text != "maintain") query.refuse("InvalidParameterValue", "Invalid fleet type: " + text);
  return FleetType::Maintain;
}

// "AvailabilityZone: to specify multiple Availability Zones, separate them using commas; for
// example, "us-west-2a, us-west-2b"" (API_SpotPlacement.html)
std::vector<LaunchOption> specification_options(Session& session) {
  const Query& query = session.query;
  std::vector<LaunchOption> options;
  for (const std::string& it : query.members(std::string(prefix) + "LaunchSpecifications")) {
    LaunchOption option{.image = query.required(it + "ImageId"),
                        .type = InstanceType(query.required(it + "InstanceType")),
                        .user_data = query.base64(it + "UserData"),
                        .key_name = query.text(it + "KeyName"),
                        .profile = query.text(it + "IamInstanceProfile.Arn",
                                              query.text(it + "IamInstanceProfile.Name")),
                        .max_price = price_parameter(query, it + "SpotPrice"),
                        .weight = query.decimal(it + "WeightedCapacity", 1),
                        .instance_tags = query.tags_for("instance", it + "TagSpecificationSet"),
                        .placement_group = query.text(it + "Placement.GroupName"),
                        .extras = extras_parameters(query, it)};
    for (const std::string& group : query.members(it + "GroupSet"))
      option.security_groups.push_back(query.required(group + "GroupId"));
    for (const std::string& device : query.members(it + "BlockDeviceMapping"))
      check_disk(query, device);
    for (const Site& site :
         sites(session, zone_parameter(session, it + "Placement."), query.text(it + "SubnetId"))) {
      option.zone = site.zone;
      option.subnet = site.subnet;
      options.push_back(option);
    }
  }
  return options;
}

void check_excess_policy(const Query& query, const std::string& policy) {
  for (const char* word : {"default", "noTermination", "NoTermination"})
    if (policy == word) return;
  query.refuse("InvalidSpotFleetRequestConfig",
               "Invalid excess capacity termination policy: " + policy);
}

// Refuses what only a Spot Fleet cannot have: API_SpotFleetRequestConfigData.html
void check_request(Session& session, const FleetRequest& request) {
  const Query& query = session.query;
  const auto wrong = [&](const std::string& why) {
    query.refuse("InvalidSpotFleetRequestConfig", why);
  };
  check_behaviour(query, request);
  const std::string roles = "arn:aws:iam::";
  if (!request.role.starts_with(roles) || request.role.find(":role/") != roles.size() + 12)
    wrong("Parameter: SpotFleetRequestConfig.IamFleetRole is invalid.");
  const auto has = [&](const char* name) {
    return !query.members(std::string(prefix) + name).empty();
  };
  if (has("LaunchSpecifications") && has("LaunchTemplateConfigs"))
    wrong("LaunchSpecifications and LaunchTemplateConfigs cannot be used together.");
}

Answer request_spot_fleet(Session& session) {
  const Query& query = session.query;
  const auto at = [](const char* name) { return std::string(prefix) + name; };
  check_excess_policy(query, query.text(at("ExcessCapacityTerminationPolicy"), "default"));
  FleetRequest request{
      .fleet = {FleetKind::SpotFleet, {}},
      .type = type_of(query, query.text(at("Type"), "maintain")),
      .allocation = strategy_parameter(query, at("AllocationStrategy"), spot_strategies()),
      .on_demand_allocation =
          strategy_parameter(query, at("OnDemandAllocationStrategy"), on_demand_strategies()),
      .rebalancing =
          rebalancing_parameter(query, at("SpotMaintenanceStrategies.CapacityRebalance."),
                                type_of(query, query.text(at("Type"), "maintain"))),
      .excess_policy = query.text(at("ExcessCapacityTerminationPolicy"), "default"),
      .role = query.required(at("IamFleetRole")),
      .client_token = query.text(at("ClientToken")),
      .terminate_with_expiration = query.boolean(at("TerminateInstancesWithExpiration")),
      .replace_unhealthy = query.boolean(at("ReplaceUnhealthyInstances")),
      .when_interrupted = behaviour_parameter(query, at("InstanceInterruptionBehavior")),
      .valid_from = time_parameter(session, at("ValidFrom")),
      .valid_until = time_parameter(session, at("ValidUntil")),
      .tags = query.tags_for("spot-fleet-request", at("TagSpecification")),
      .sent = query.below(prefix)};
  check_request(session, request);
  query.required(at("TargetCapacity"));
  request.target = query.integer(at("TargetCapacity")).value_or(0);
  request.on_demand_target = query.integer(at("OnDemandTargetCapacity")).value_or(0);
  request.options = specification_options(session);
  for (LaunchOption& option : template_options(session, at("LaunchTemplateConfigs"))) {
    request.options.push_back(std::move(option));
  }
  const std::string price = price_parameter(query, at("SpotPrice"));
  for (LaunchOption& option : request.options)
    if (option.max_price.empty()) option.max_price = price;
  for (const LaunchOption& option : request.options)
    if (option.reserved)
      query.refuse("InvalidSpotFleetRequestConfig",
                   "A Spot Fleet launches into no capacity reservation of these kinds.");
  SPOTTER_CHECK_QUERY(session);
  const auto made = Fleets(session.cloud).create(std::move(request));
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  xml.text("spotFleetRequestId", made->fleet.id.view());
  return xml;
}

void write_request(Xml& xml, Cloud& cloud, const FleetRequest& fleet) {
  xml.text("spotFleetRequestId", fleet.fleet.id.view());
  xml.text("spotFleetRequestState", name(fleet.state, FleetKind::SpotFleet));
  xml.text("activityStatus", Fleets(cloud).activity(fleet));
  xml.text("createTime", xml_time(cloud.wall(fleet.created)));
  std::map<std::string, std::string> config = fleet.sent;
  std::erase_if(config, [](const auto& it) { return it.first.rfind("TagSpecification.", 0) == 0; });
  config["TargetCapacity"] = std::to_string(fleet.target);
  config["OnDemandTargetCapacity"] = std::to_string(fleet.on_demand_target);
  config["OnDemandFulfilledCapacity"] = std::to_string(Fleets(cloud).fulfilled(fleet, false));
  config.emplace("AllocationStrategy", "lowestPrice");
  config["ExcessCapacityTerminationPolicy"] = fleet.excess_policy;
  config["Type"] = fleet.type == FleetType::Request ? "request" : "maintain";
  config["FulfilledCapacity"] = std::to_string(Fleets(cloud).fulfilled(fleet));
  xml.element("spotFleetRequestConfig", [&] { write_sent(xml, config); });
  write_tags(xml, fleet.tags);
}

Answer describe_spot_fleet_requests(Session& session) {
  const auto page = select<FleetRequest>(
      session, Fleets(session.cloud).list(FleetKind::SpotFleet),
      session.query.list("SpotFleetRequestId"), not_found, {},
      [](const FleetRequest&) { return Facts{}; },
      [](const FleetRequest& it) { return it.fleet.id.str(); });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("spotFleetRequestConfigSet", page->rows,
            [&](const FleetRequest& it) { write_request(xml, session.cloud, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

Expected<FleetRequest> named_fleet(Session& session) {
  const FleetId id(session.query.required("SpotFleetRequestId"));
  SPOTTER_CHECK_QUERY(session);
  const FleetRequest* fleet = Fleets(session.cloud).seen(id);
  if (fleet && fleet->fleet.kind == FleetKind::SpotFleet) return *fleet;
  return refusal(not_found, "The spot fleet request ID '" + id.str() + "' does not exist");
}

Answer describe_spot_fleet_instances(Session& session) {
  const auto fleet = named_fleet(session);
  if (!fleet) return tl::unexpected(fleet.error());
  const auto shown = page(Fleets(session.cloud).living(*fleet), session.query);
  Xml xml;
  xml.text("spotFleetRequestId", fleet->fleet.id.view());
  xml.items("activeInstanceSet", shown.rows, [&](const Instance& it) {
    xml.text("instanceId", it.id.view());
    xml.text("instanceType", it.type.view());
    xml.optional("spotInstanceRequestId", it.spot_request);
    xml.text("instanceHealth", "healthy");
  });
  xml.optional("nextToken", shown.next);
  return xml;
}

// Launches and terminations (instanceChange), launches that EC2 refused (error), changes of the
// request (fleetRequestChange).
Answer describe_spot_fleet_request_history(Session& session) {
  const auto fleet = named_fleet(session);
  if (!fleet) return tl::unexpected(fleet.error());
  const auto start = time_parameter(session, "StartTime");
  if (!start) session.query.required("StartTime");
  SPOTTER_CHECK_QUERY(session);
  static const HistoryForm form = {
      "spotFleetRequestId",
      {{"fleet-submitted", {"fleetRequestChange", "submitted"}},
       {"fleet-active", {"fleetRequestChange", "active"}},
       {"fleet-modified", {"fleetRequestChange", "modify_in_progress"}},
       {"fleet-cancelled", {"fleetRequestChange", "cancelled_terminating"}},
       {"fleet-ended", {"fleetRequestChange", "cancelled"}},
       {"fleet-expired", {"fleetRequestChange", "expired"}},
       {"instance-launched", {"instanceChange", "launched"}},
       {"instance-terminated", {"instanceChange", "terminated"}},
       {"launch-failed", {"error", "spotFleetRequestConfigurationInvalid"}}}};
  return history_of(session, *fleet, *start, form);
}

Answer cancel_spot_fleet_requests(Session& session) {
  std::vector<FleetId> ids;
  for (const std::string& id : session.query.list("SpotFleetRequestId")) ids.emplace_back(id);
  if (ids.empty()) session.query.required("SpotFleetRequestId");
  session.query.required("TerminateInstances");
  const bool terminate = session.query.boolean("TerminateInstances");
  SPOTTER_CHECK_QUERY(session);
  const auto results = Fleets(session.cloud).cancel(ids, FleetKind::SpotFleet, terminate);
  Xml xml;
  const auto write = [&](const char* element, bool failed, auto body) {
    std::vector<FleetCancellation> chosen = results;
    std::erase_if(chosen, [&](const auto& it) { return it.error.has_value() != failed; });
    xml.items(element, chosen, [&](const FleetCancellation& it) {
      xml.text("spotFleetRequestId", it.id.view());
      body(it);
    });
  };
  write("unsuccessfulFleetRequestSet", true,
        [&](const FleetCancellation& it) { write_id_error(xml, *it.error); });
  write("successfulFleetRequestSet", false, [&](const FleetCancellation& it) {
    xml.text("currentSpotFleetRequestState", name(it.after, FleetKind::SpotFleet));
    xml.text("previousSpotFleetRequestState", name(it.before, FleetKind::SpotFleet));
  });
  return xml;
}

Answer modify_spot_fleet_request(Session& session) {
  ModifyFleet request{.id = FleetId(session.query.required("SpotFleetRequestId")),
                      .target = session.query.integer("TargetCapacity"),
                      .on_demand = session.query.integer("OnDemandTargetCapacity")};
  if (session.query.has("ExcessCapacityTerminationPolicy")) {
    request.excess_policy = session.query.text("ExcessCapacityTerminationPolicy");
    check_excess_policy(session.query, *request.excess_policy);
  }
  SPOTTER_CHECK_QUERY(session);
  const auto done = Fleets(session.cloud).modify(request, FleetKind::SpotFleet);
  if (!done) return tl::unexpected(done.error());
  return returned_true();
}

}  // namespace

void add_spot_fleet_operations(Operations& operations) {
  operations["RequestSpotFleet"] = request_spot_fleet;
  operations["DescribeSpotFleetRequests"] = describe_spot_fleet_requests;
  operations["DescribeSpotFleetInstances"] = describe_spot_fleet_instances;
  operations["DescribeSpotFleetRequestHistory"] = describe_spot_fleet_request_history;
  operations["CancelSpotFleetRequests"] = cancel_spot_fleet_requests;
  operations["ModifySpotFleetRequest"] = modify_spot_fleet_request;
}

}  // namespace spotter::world
