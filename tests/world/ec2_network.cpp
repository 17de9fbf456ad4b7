// The ways out of the account's default VPC: route tables, endpoints, NAT gateways and network
// ACLs, as faults have set them (`fault subnet`, `fault endpoint`). No call makes or changes one,
// and no packet is held up.
// https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Route_Tables.html
#include "tests/world/ec2_api.hpp"

namespace spotter::world {
namespace {

constexpr const char* main_table = "rtb-00000000000000000";
constexpr const char* default_acl = "acl-00000000000000000";

// The id of a thing that stands beside a subnet: rtb-0000000000000000a for
// subnet-0000000000000000a.
std::string beside(const char* prefix, const std::string& subnet) {
  return prefix + subnet.substr(subnet.find('-'));
}

struct RouteRow {
  std::string to, member, through;  // the member that names what it leads through
  bool gone = false;
};

struct TableRow {
  std::string id;
  std::vector<std::string> subnets;
  std::vector<RouteRow> routes;
  bool main = false;
  Tags tags = {};
};

std::vector<RouteRow> routes_of(const std::string& subnet, const std::string& way) {
  std::vector<RouteRow> routes = {{"172.31.0.0/16", "gatewayId", "local"}};
  const std::string all = "0.0.0.0/0";
  if (way == "internet") routes.push_back({all, "gatewayId", "igw-00000000000000000"});
  if (way.find("nat") != way.npos)
    routes.push_back({all, "natGatewayId", beside("nat", subnet), way == "gone-nat"});
  if (way == "transit") routes.push_back({all, "transitGatewayId", "tgw-00000000000000000"});
  if (way == "ipv6")
    routes.push_back({"::/0", "egressOnlyInternetGatewayId", "eigw-00000000000000000"});
  return routes;
}

std::vector<TableRow> tables_of(const Cloud& cloud) {
  std::vector<TableRow> rows = {{main_table, {}, routes_of("", "internet"), true}};
  for (const auto& [subnet, it] : cloud.subnets)
    if (it.way != "internet")
      rows.push_back({beside("rtb", subnet), {subnet}, routes_of(subnet, it.way)});
  return rows;
}

std::vector<std::string> subnets_of(const Cloud& cloud) {
  std::vector<std::string> subnets;
  for (const Zone& zone : cloud.settings.zones) subnets.push_back(subnet_of(cloud, zone));
  return subnets;
}

void write_association(Xml& xml, const TableRow& it, const std::string& subnet) {
  xml.element("item", [&] {
    xml.text("routeTableAssociationId", "rtbassoc" + it.id.substr(it.id.find('-')));
    xml.text("routeTableId", it.id);
    xml.optional("subnetId", subnet);
    xml.value("main", subnet.empty());
    xml.element("associationState", [&] { xml.text("state", "associated"); });
  });
}

void write_routes(Xml& xml, const Cloud& cloud, const TableRow& it) {
  xml.element("routeSet", [&] {
    for (const RouteRow& route : it.routes)
      xml.element("item", [&] {
        const bool ipv6 = route.to.find(':') != route.to.npos;
        xml.text(ipv6 ? "destinationIpv6CidrBlock" : "destinationCidrBlock", route.to);
        xml.text(route.member, route.through);
        xml.text("state", route.gone ? "blackhole" : "active");
        xml.text("origin", route.through == "local" ? "CreateRouteTable" : "CreateRoute");
      });
    for (const NetworkEndpoint& endpoint : cloud.endpoints)
      if (endpoint.gateway)
        xml.element("item", [&] {
          xml.text("destinationPrefixListId", "pl-68a54001");
          xml.text("gatewayId", endpoint.id);
          xml.text("state", "active");
          xml.text("origin", "CreateRoute");
        });
  });
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeRouteTables.html
Answer describe_route_tables(Session& session) {
  const Cloud& cloud = session.cloud;
  const auto page = select<TableRow>(
      session, tables_of(cloud), session.query.list("RouteTableId"), "InvalidRouteTableID.NotFound",
      {"route-table-id", "vpc-id", "owner-id", "association.subnet-id", "association.main"},
      [&](const TableRow& it) {
        Facts facts = {{"route-table-id", it.id},
                       {"vpc-id", vpc},
                       {"owner-id", cloud.settings.account},
                       {"association.main", it.main ? "true" : "false"}};
        for (const std::string& subnet : it.subnets)
          facts.insert({"association.subnet-id", subnet});
        return facts;
      },
      [](const TableRow& it) { return it.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("routeTableSet", page->rows, [&](const TableRow& it) {
    xml.text("routeTableId", it.id);
    xml.text("vpcId", vpc);
    xml.text("ownerId", cloud.settings.account);
    write_routes(xml, cloud, it);
    xml.element("associationSet", [&] {
      if (it.main) write_association(xml, it, "");
      for (const std::string& subnet : it.subnets) write_association(xml, it, subnet);
    });
    xml.element("propagatingVgwSet", [] {});
    xml.element("tagSet", [] {});
  });
  xml.optional("nextToken", page->next);
  return xml;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeVpcEndpoints.html
Answer describe_vpc_endpoints(Session& session) {
  struct Row {
    NetworkEndpoint it;
    Tags tags;
  };
  const Cloud& cloud = session.cloud;
  std::vector<Row> rows;
  for (const NetworkEndpoint& it : cloud.endpoints) rows.push_back({it, {}});
  std::ranges::sort(rows, {}, [](const Row& row) { return row.it.id; });
  const auto type = [](const Row& row) { return row.it.gateway ? "Gateway" : "Interface"; };
  const auto service = [&](const Row& row) {
    return "com.amazonaws." + cloud.settings.region.str() + "." + row.it.service;
  };
  const auto page = select<Row>(
      session, rows, session.query.list("VpcEndpointId"), "InvalidVpcEndpointId.NotFound",
      {"vpc-endpoint-id", "vpc-endpoint-type", "vpc-endpoint-state", "vpc-id", "service-name"},
      [&](const Row& row) -> Facts {
        return {{"vpc-endpoint-id", row.it.id},
                {"vpc-endpoint-type", type(row)},
                {"vpc-endpoint-state", "available"},
                {"vpc-id", vpc},
                {"service-name", service(row)}};
      },
      [](const Row& row) { return row.it.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("vpcEndpointSet", page->rows, [&](const Row& row) {
    const auto all = [&](const char* name, const std::vector<std::string>& ids) {
      xml.element(name, [&] {
        for (const std::string& id : ids) xml.text("item", id);
      });
    };
    xml.text("vpcEndpointId", row.it.id);
    xml.text("vpcEndpointType", type(row));
    xml.text("vpcId", vpc);
    xml.text("serviceName", service(row));
    xml.text("state", "available");
    xml.text("policyDocument", row.it.policy);
    std::vector<std::string> tables;
    for (const TableRow& it : tables_of(cloud)) tables.push_back(it.id);
    all("routeTableIdSet", row.it.gateway ? tables : std::vector<std::string>());
    all("subnetIdSet", row.it.gateway ? std::vector<std::string>() : subnets_of(cloud));
    xml.element("groupSet", [&] {
      if (!row.it.gateway) xml.element("item", [&] { xml.text("groupId", row.it.group); });
    });
    xml.value("privateDnsEnabled", row.it.private_names);
    xml.value("requesterManaged", false);
    xml.text("ownerId", cloud.settings.account);
  });
  xml.optional("nextToken", page->next);
  return xml;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeNatGateways.html
Answer describe_nat_gateways(Session& session) {
  struct Row {
    std::string id, subnet, state;
    bool is_public;
    Tags tags;
  };
  std::vector<Row> rows;
  for (const auto& [subnet, it] : session.cloud.subnets)
    if (it.way.find("nat") != it.way.npos && it.way != "gone-nat")
      rows.push_back({beside("nat", subnet),
                      subnet,
                      it.way == "failed-nat" ? "failed" : "available",
                      it.way != "private-nat",
                      {}});
  const auto page = select<Row>(
      session, rows, session.query.list("NatGatewayId"), "NatGatewayNotFound",
      {"nat-gateway-id", "state", "subnet-id", "vpc-id"},
      [](const Row& it) -> Facts {
        return {{"nat-gateway-id", it.id},
                {"state", it.state},
                {"subnet-id", it.subnet},
                {"vpc-id", vpc}};
      },
      [](const Row& it) { return it.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("natGatewaySet", page->rows, [&](const Row& it) {
    xml.text("natGatewayId", it.id);
    xml.text("subnetId", it.subnet);
    xml.text("vpcId", vpc);
    xml.text("state", it.state);
    xml.text("connectivityType", it.is_public ? "public" : "private");
  });
  xml.optional("nextToken", page->next);
  return xml;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeNetworkAcls.html
Answer describe_network_acls(Session& session) {
  struct Row {
    std::string id;
    std::vector<std::string> subnets;
    bool lets_all;
    Tags tags;
  };
  const Cloud& cloud = session.cloud;
  std::vector<Row> rows = {{default_acl, {}, true, {}}};
  for (const std::string& subnet : subnets_of(cloud)) {
    const auto changed = cloud.subnets.find(subnet);
    if (changed == cloud.subnets.end() || !changed->second.closed)
      rows.front().subnets.push_back(subnet);
    else
      rows.push_back({beside("acl", subnet), {subnet}, false, {}});
  }
  const auto page = select<Row>(
      session, rows, session.query.list("NetworkAclId"), "InvalidNetworkAclID.NotFound",
      {"network-acl-id", "vpc-id", "default", "association.subnet-id"},
      [](const Row& it) {
        Facts facts = {{"network-acl-id", it.id},
                       {"vpc-id", vpc},
                       {"default", it.id == default_acl ? "true" : "false"}};
        for (const std::string& subnet : it.subnets)
          facts.insert({"association.subnet-id", subnet});
        return facts;
      },
      [](const Row& it) { return it.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  const auto entry = [&](int number, bool out, bool allows) {
    xml.element("item", [&] {
      xml.value("ruleNumber", number);
      xml.text("protocol", "-1");
      xml.text("ruleAction", allows ? "allow" : "deny");
      xml.value("egress", out);
      xml.text("cidrBlock", "0.0.0.0/0");
    });
  };
  xml.items("networkAclSet", page->rows, [&](const Row& it) {
    xml.text("networkAclId", it.id);
    xml.text("vpcId", vpc);
    xml.value("default", it.id == default_acl);
    xml.element("entrySet", [&] {
      for (const bool out : {true, false}) {
        if (it.lets_all) entry(100, out, true);
        entry(32767, out, false);
      }
    });
    xml.items("associationSet", it.subnets, [&](const std::string& subnet) {
      xml.text("networkAclAssociationId", beside("aclassoc", subnet));
      xml.text("networkAclId", it.id);
      xml.text("subnetId", subnet);
    });
    xml.element("tagSet", [] {});
  });
  xml.optional("nextToken", page->next);
  return xml;
}

}  // namespace

void add_network_operations(Operations& operations) {
  operations["DescribeRouteTables"] = describe_route_tables;
  operations["DescribeVpcEndpoints"] = describe_vpc_endpoints;
  operations["DescribeNatGateways"] = describe_nat_gateways;
  operations["DescribeNetworkAcls"] = describe_network_acls;
}

}  // namespace spotter::world
