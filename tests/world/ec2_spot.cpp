#include "tests/world/ec2_api.hpp"
#include "tests/world/pools.hpp"

#include <algorithm>
#include <cctype>

namespace spotter::world {

namespace {

struct SpotRow {
  Instance instance;
  std::string state;
  std::string status;
  Tags tags;
};

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html
SpotRow spot_row(const Instance& instance) {
  SpotRow row{instance, "active", "fulfilled", {}};
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/tag-spot-fleet.html
  if (instance.fleet.kind == FleetKind::SpotFleet)
    row.tags["aws:ec2spot:fleet-request-id"] = instance.fleet.id.str();
  if (instance.notice) row.status = "marked-for-termination";
  if (is_alive(instance)) return row;
  row.state = "closed";
  if (instance.state == InstanceState::Stopping || instance.state == InstanceState::Stopped) {
    row.state = "disabled";
    row.status = "instance-stopped-no-capacity";
  } else if (instance.reason.rfind("Server.", 0) == 0) {
    row.status = "instance-terminated-no-capacity";
  } else {
    row.status = "instance-terminated-by-user";
  }
  return row;
}

void write_row(Xml& xml, const Cloud& cloud, const SpotRow& row) {
  const Instance& it = row.instance;
  const std::string time = xml_time(cloud.wall(it.launched));
  xml.text("spotInstanceRequestId", it.spot_request);
  const double on_demand = usual_price(it.type, it.zone) * 3;
  xml.text("spotPrice", it.max_price.empty() ? std::to_string(on_demand) : it.max_price);
  xml.text("type", "one-time");
  xml.text("state", row.state);
  xml.element("status", [&] {
    xml.text("code", row.status);
    xml.text("updateTime", xml_time(cloud.wall(it.died.value_or(it.launched))));
    xml.text("message", row.status);
  });
  xml.element("launchSpecification", [&] {
    xml.text("imageId", it.image);
    xml.text("instanceType", it.type.view());
    xml.element("placement", [&] { xml.text("availabilityZone", it.zone.view()); });
  });
  xml.text("instanceId", it.id.view());
  xml.text("createTime", time);
  xml.text("productDescription", "Linux/UNIX");
  write_tags(xml, row.tags);
  xml.text("launchedAvailabilityZone", it.zone.view());
  constexpr std::string_view behaviours[] = {"terminate", "stop", "hibernate"};
  xml.text("instanceInterruptionBehavior",
           behaviours[static_cast<std::size_t>(it.when_interrupted)]);
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotInstanceRequests.html,
// Filters
Answer describe_spot_instance_requests(Session& session) {
  const Cloud& cloud = session.cloud;
  std::vector<SpotRow> rows;
  cloud.instances.each_seen(cloud.now, [&](const Instance& it) {
    const bool known_by_now = it.launched + cloud.settings.spot_request_lag <= cloud.now;
    if (!it.spot_request.empty() && known_by_now) rows.push_back(spot_row(it));
  });
  const auto page = select<SpotRow>(
      session, std::move(rows), session.query.list("SpotInstanceRequestId"),
      "InvalidSpotInstanceRequestID.NotFound",
      {"spot-instance-request-id", "instance-id", "state", "status-code", "type",
       "launched-availability-zone", "launch.instance-type", "launch.image-id"},
      [](const SpotRow& it) -> Facts {
        return {{"spot-instance-request-id", it.instance.spot_request},
                {"instance-id", it.instance.id.str()},
                {"state", it.state},
                {"status-code", it.status},
                {"type", "one-time"},
                {"launched-availability-zone", it.instance.zone.str()},
                {"launch.instance-type", it.instance.type.str()},
                {"launch.image-id", it.instance.image}};
      },
      [](const SpotRow& it) { return it.instance.spot_request; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("spotInstanceRequestSet", page->rows,
            [&](const SpotRow& it) { write_row(xml, cloud, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

struct PriceRow {
  Zone zone;
  std::string type;
  std::string dollars, since;
  Tags tags;
};

bool is_type_name(const std::string& text) {
  return !text.empty() && InstanceType::fits(text) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isgraph(c); });
}

// Shows of each pool the price in force at StartTime, whenever it was set, and the later ones.
Answer describe_spot_price_history(Session& session) {
  const Cloud& cloud = session.cloud;
  constexpr std::chrono::hours kept{90 * 24};
  const auto from = time_parameter(session, "StartTime").value_or(cloud.now - kept);
  const auto until = time_parameter(session, "EndTime").value_or(cloud.now);
  auto types = session.query.list("InstanceType");
  if (types.empty()) types.push_back(cloud.settings.default_type);
  const std::string only = session.query.text("AvailabilityZone");
  std::vector<PriceRow> rows;
  for (const std::string& type : types) {
    if (!is_type_name(type)) {
      session.query.refuse("InvalidParameterValue", "Invalid instance type: " + type);
      continue;
    }
    for (const Zone& zone : cloud.settings.zones) {
      if (!only.empty() && zone.view() != only) continue;
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
  operations["DescribeSpotPriceHistory"] = describe_spot_price_history;
}

}  // namespace spotter::world
