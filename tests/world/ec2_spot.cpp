#include "tests/world/ec2_api.hpp"
#include "tests/world/pools.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace spotter::world {

namespace {

struct SpotRow {
  std::string id;
  std::string type = "one-time";
  std::string state = "open";
  std::string status = "pending-fulfillment";
  Time since{};
  Time changed{};
  LaunchOption what;
  InterruptionAction when_interrupted = InterruptionAction::Terminate;
  std::optional<Time> valid_from, valid_until;
  std::string instance = {};  // empty: it waits for one
  Tags tags = {};
};

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html
void show_instance(SpotRow& row, const Instance& instance) {
  row.instance = instance.id.str();
  row.what.zone = instance.zone;
  row.changed = instance.died.value_or(instance.launched);
  row.state = "active";
  row.status = instance.notice ? "marked-for-termination" : "fulfilled";
  const bool stopped =
      instance.state == InstanceState::Stopping || instance.state == InstanceState::Stopped;
  if (instance.spot_cancelled) {
    row.state = "cancelled";
    row.status = is_alive(instance) ? "request-canceled-and-instance-running"
                                    : "instance-terminated-by-user";
  } else if (stopped) {
    row.state = "disabled";
    row.status = instance.reason == user_reason ? "instance-stopped-by-user"
                                                : "instance-stopped-no-capacity";
  } else if (!is_alive(instance)) {
    row.state = "closed";
    row.status = instance.reason.starts_with("Server.") ? "instance-terminated-no-capacity"
                                                        : "instance-terminated-by-user";
  }
}

SpotRow row_of(const Instance& instance) {
  SpotRow row{.id = instance.spot_request,
              .since = instance.launched,
              .what = {.image = instance.image,
                       .type = instance.type,
                       .key_name = instance.key_name,
                       .max_price = instance.max_price},
              .when_interrupted = instance.when_interrupted,
              .tags = instance.request_tags};
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/tag-spot-fleet.html
  if (instance.fleet.kind == FleetKind::SpotFleet)
    row.tags["aws:ec2spot:fleet-request-id"] = instance.fleet.id.str();
  show_instance(row, instance);
  return row;
}

// A request that was there before its instance, and may outlive it.
SpotRow row_of(const Cloud& cloud, const FleetRequest& request) {
  const bool persistent = request.type == FleetType::Maintain;
  SpotRow row{.id = request.fleet.id.str(),
              .type = persistent ? "persistent" : "one-time",
              .since = request.created,
              .changed = request.created,
              .what = request.options.front(),
              .when_interrupted = request.when_interrupted,
              .valid_from = request.valid_from,
              .valid_until = request.valid_until,
              .tags = request.tags};
  if (!request.errors.empty())
    row.status = request.errors.front().error.code == "SpotMaxPriceTooLow"
                     ? "price-too-low"
                     : "capacity-not-available";
  if (!request.instances.empty())
    show_instance(row, *cloud.instances.find(request.instances.back()));
  const bool cancelled = request.state >= FleetState::CancelledRunning;
  if (!cancelled && persistent && row.state == "closed") {
    row.state = "open";
    row.status =
        row.status == "instance-terminated-no-capacity" ? row.status : "pending-evaluation";
  }
  if (!cancelled) return row;
  const bool runs = row.state == "active" || row.state == "disabled";
  row.state = "cancelled";
  row.status = runs                   ? "request-canceled-and-instance-running"
               : row.instance.empty() ? "canceled-before-fulfillment"
                                      : "instance-terminated-by-user";
  if (request.valid_until && *request.valid_until <= cloud.now && !runs)
    row.status = "schedule-expired";
  return row;
}

void write_row(Xml& xml, const Cloud& cloud, const SpotRow& row) {
  const LaunchOption& what = row.what;
  xml.text("spotInstanceRequestId", row.id);
  const double on_demand = usual_price(what.type, what.zone) * 3;
  xml.text("spotPrice", what.max_price.empty() ? std::to_string(on_demand) : what.max_price);
  xml.text("type", row.type);
  xml.text("state", row.state);
  xml.element("status", [&] {
    xml.text("code", row.status);
    xml.text("updateTime", xml_time(cloud.wall(row.changed)));
    xml.text("message", row.status);
  });
  xml.element("launchSpecification", [&] {
    xml.text("imageId", what.image);
    xml.optional("keyName", what.key_name);
    xml.text("instanceType", what.type.view());
    xml.element("placement", [&] { xml.text("availabilityZone", what.zone.view()); });
  });
  xml.optional("instanceId", row.instance);
  xml.text("createTime", xml_time(cloud.wall(row.since)));
  if (row.valid_from) xml.text("validFrom", xml_time(cloud.wall(*row.valid_from)));
  if (row.valid_until) xml.text("validUntil", xml_time(cloud.wall(*row.valid_until)));
  xml.text("productDescription", "Linux/UNIX");
  write_tags(xml, row.tags);
  if (!row.instance.empty()) xml.text("launchedAvailabilityZone", what.zone.view());
  constexpr std::string_view behaviours[] = {"terminate", "stop", "hibernate"};
  xml.text("instanceInterruptionBehavior",
           behaviours[static_cast<std::size_t>(row.when_interrupted)]);
}

std::vector<SpotRow> spot_rows(Cloud& cloud) {
  std::vector<SpotRow> rows;
  std::set<std::string> requests;
  for (const FleetRequest& it : Fleets(cloud).list(FleetKind::None)) {
    rows.push_back(row_of(cloud, it));
    requests.insert(it.fleet.id.str());
  }
  cloud.instances.each_seen(cloud.now, [&](const Instance& it) {
    const bool known_by_now = it.launched + cloud.settings.spot_request_lag <= cloud.now;
    if (!it.spot_request.empty() && !requests.contains(it.spot_request) && known_by_now)
      rows.push_back(row_of(it));
  });
  return rows;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotInstanceRequests.html,
// Filters
Answer describe_spot_instance_requests(Session& session) {
  const Cloud& cloud = session.cloud;
  const auto page = select<SpotRow>(
      session, spot_rows(session.cloud), session.query.list("SpotInstanceRequestId"),
      "InvalidSpotInstanceRequestID.NotFound",
      {"spot-instance-request-id", "instance-id", "state", "status-code", "type",
       "launched-availability-zone", "launch.instance-type", "launch.image-id"},
      [](const SpotRow& it) -> Facts {
        return {{"spot-instance-request-id", it.id},
                {"instance-id", it.instance},
                {"state", it.state},
                {"status-code", it.status},
                {"type", it.type},
                {"launched-availability-zone", it.what.zone.str()},
                {"launch.instance-type", it.what.type.str()},
                {"launch.image-id", it.what.image}};
      },
      [](const SpotRow& it) { return it.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("spotInstanceRequestSet", page->rows,
            [&](const SpotRow& it) { write_row(xml, cloud, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

LaunchOption specification_of(Session& session) {
  const Query& query = session.query;
  const auto at = [](const char* name) { return std::string("LaunchSpecification.") + name; };
  LaunchOption option{.image = query.required(at("ImageId")),
                      .type = InstanceType(query.text(at("InstanceType"), "m1.small")),
                      .user_data = query.base64(at("UserData")),
                      .key_name = query.text(at("KeyName")),
                      .profile = query.text(at("IamInstanceProfile.Arn"),
                                            query.text(at("IamInstanceProfile.Name"))),
                      .max_price = price_parameter(query, "SpotPrice"),
                      .placement_group = query.text(at("Placement.GroupName")),
                      .security_groups = security_groups(session, at("")),
                      .extras = extras_parameters(query, at(""))};
  const std::string zone = zone_parameter(session, at("Placement."));
  const Site site = sites(session, zone, query.text(at("SubnetId"))).front();
  option.zone = site.zone;
  option.subnet = site.subnet;
  return option;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestSpotInstances.html
Answer request_spot_instances(Session& session) {
  const Query& query = session.query;
  const std::string type = query.text("Type", "one-time");
  if (type != "one-time" && type != "persistent")
    query.refuse("InvalidParameterValue", "Invalid spot instance type: " + type);
  const int count = query.integer("InstanceCount").value_or(1);
  if (count < 1 || count > 100)
    query.refuse("InvalidParameterValue", "InstanceCount must be from 1 to 100");
  const FleetRequest one{
      .fleet = {FleetKind::None, {}},
      .type = type == "persistent" ? FleetType::Maintain : FleetType::Request,
      .when_interrupted = behaviour_parameter(query, "InstanceInterruptionBehavior"),
      .valid_from = time_parameter(session, "ValidFrom"),
      .valid_until = time_parameter(session, "ValidUntil"),
      .options = {specification_of(session)},
      .tags = query.tags_for("spot-instances-request")};
  if (one.type == FleetType::Request && one.when_interrupted != InterruptionAction::Terminate)
    query.refuse("InvalidParameterCombination",
                 "The interruption behaviors stop and hibernate need a persistent spot request");
  SPOTTER_CHECK_QUERY(session);
  if (auto refused = refuse_launch(session.cloud, one.options.front()))
    return tl::unexpected(*refused);
  Xml xml;
  xml.items("spotInstanceRequestSet", std::vector<int>(static_cast<std::size_t>(count)), [&](int) {
    const auto made = Fleets(session.cloud).create(one);
    if (made) write_row(xml, session.cloud, row_of(session.cloud, *made));
  });
  return xml;
}

Answer cancel_spot_instance_requests(Session& session) {
  const auto ids = session.query.list("SpotInstanceRequestId");
  if (ids.empty()) session.query.required("SpotInstanceRequestId");
  SPOTTER_CHECK_QUERY(session);
  const auto rows = spot_rows(session.cloud);
  for (const std::string& id : ids)
    if (std::ranges::find(rows, id, &SpotRow::id) == rows.end())
      return refusal("InvalidSpotInstanceRequestID.NotFound",
                     "The spot instance request ID '" + id + "' does not exist");
  Xml xml;
  xml.items("spotInstanceRequestSet", ids, [&](const std::string& id) {
    Cloud& cloud = session.cloud;
    const SpotRow& row = *std::ranges::find(rows, id, &SpotRow::id);
    if (cloud.fleets.find(FleetId(id)) != nullptr)
      Fleets(cloud).cancel_spot_request(FleetId(id));
    else
      cloud.instances.change(InstanceId(row.instance), cloud.now, cloud.lag()).spot_cancelled =
          true;
    xml.text("spotInstanceRequestId", id);
    xml.text("state", "cancelled");
  });
  return xml;
}

struct PriceRow {
  Zone zone;
  std::string type;
  std::string dollars, since;
  Tags tags;
};

// Shows of each pool the price in force at StartTime, whenever it was set, and the later ones.
Answer describe_spot_price_history(Session& session) {
  const Cloud& cloud = session.cloud;
  constexpr std::chrono::hours kept{90 * 24};
  const auto from = time_parameter(session, "StartTime").value_or(cloud.now - kept);
  const auto until = time_parameter(session, "EndTime").value_or(cloud.now);
  auto types = session.query.list("InstanceType");
  if (types.empty()) types.push_back(cloud.settings.default_type);
  const std::string only = zone_parameter(session);
  if (!only.empty() && !cloud.has_zone(Zone(only)))
    return refusal("InvalidParameterValue", "Invalid availability zone: [" + only + "]");
  // Each pool here is one of Linux.
  const auto products = session.query.list("ProductDescription");
  const bool linux = products.empty() || std::ranges::any_of(products, [](const auto& it) {
                       return it == "Linux/UNIX" || it == "Linux/UNIX (Amazon VPC)";
                     });
  std::vector<PriceRow> rows;
  for (const std::string& type : types) {
    for (const Zone& zone : cloud.settings.zones) {
      if (!linux || (!only.empty() && zone.view() != only)) continue;
      for (const Pools::Price& it :
           Pools(session.cloud)
               .prices(InstanceType(type), zone, cloud.wall(from), cloud.wall(until)))
        rows.push_back({zone, type, std::to_string(it.dollars), xml_time(it.since), {}});
    }
  }
  const auto page = select<PriceRow>(
      session, std::move(rows), {}, "",
      {"availability-zone", "instance-type", "product-description", "spot-price", "timestamp"},
      [&](const PriceRow& it) -> Facts {
        return {{"availability-zone", it.zone.str()},
                {"instance-type", it.type},
                {"product-description", "Linux/UNIX"},
                {"spot-price", it.dollars},
                {"timestamp", it.since}};
      },
      [](const PriceRow& it) { return it.type; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  // A history is read in parts, of which one may have nothing for the filters.
  if (!session.query.has("NextToken") && session.cloud.random.below(2) == 0) {
    xml.element("spotPriceHistorySet", [] {});
    xml.text("nextToken", "page-0");
    return xml;
  }
  xml.items("spotPriceHistorySet", page->rows, [&](const PriceRow& it) {
    xml.text("instanceType", it.type);
    xml.text("productDescription", "Linux/UNIX");
    xml.text("spotPrice", it.dollars);
    xml.text("timestamp", it.since);
    xml.text("availabilityZone", it.zone.view());
  });
  xml.text("nextToken", page->next);
  return xml;
}

}  // namespace

void add_spot_operations(Operations& operations) {
  operations["DescribeSpotInstanceRequests"] = describe_spot_instance_requests;
  operations["RequestSpotInstances"] = request_spot_instances;
  operations["CancelSpotInstanceRequests"] = cancel_spot_instance_requests;
  operations["DescribeSpotPriceHistory"] = describe_spot_price_history;
}

}  // namespace spotter::world
