// Security groups, and the network interfaces that launches ask for.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html; codes of errors:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
#include <arpa/inet.h>

#include <cstdlib>
#include <set>

#include "tests/world/ec2_api.hpp"
#include "tests/world/instances.hpp"
#include "tests/world/offers.hpp"

namespace spotter::world {
namespace {

ApiError no_security_group(const std::string& id) {
  return {"InvalidGroup.NotFound", "The security group '" + id + "' does not exist"};
}

void write_rules(Xml& xml, const Cloud& cloud, const char* name,
                 const std::vector<SecurityRule>& rules) {
  xml.items(name, rules, [&](const SecurityRule& it) {
    xml.text("ipProtocol", it.protocol);
    if (it.protocol != "-1") {
      xml.value("fromPort", it.from);
      xml.value("toPort", it.to);
    }
    xml.element("groups", [&] {
      if (it.group.empty()) return;
      xml.element("item", [&] {
        xml.text("userId", cloud.settings.account);
        xml.text("groupId", it.group);
        xml.optional("description", it.description);
      });
    });
    xml.element("ipRanges", [&] {
      if (it.cidr.empty()) return;
      xml.element("item", [&] {
        xml.text("cidrIp", it.cidr);
        xml.optional("description", it.description);
      });
    });
    xml.element("ipv6Ranges", [] {});
    xml.element("prefixListIds", [] {});
  });
}

Answer create_security_group(Session& session) {
  const Query& query = session.query;
  Cloud& cloud = session.cloud;
  SecurityGroup group{.name = query.required("GroupName"),
                      .description = query.required("GroupDescription"),
                      .out = {{.protocol = "-1", .cidr = "0.0.0.0/0"}},
                      .tags = query.tags_for("security-group")};
  SPOTTER_CHECK_QUERY(session);
  if (query.text("VpcId", vpc) != vpc)
    return refusal("InvalidVpcID.NotFound",
                   "The vpc ID '" + query.text("VpcId") + "' does not exist");
  if (group.name.starts_with("sg-"))
    return refusal("InvalidParameterValue", "A group's name may not begin with sg-.");
  for (const auto& [id, it] : cloud.security_groups)
    if (it.name == group.name)
      return refusal("InvalidGroup.Duplicate", "The security group '" + group.name +
                                                   "' already exists for VPC '" + vpc + "'");
  group.id = "sg-0" + cloud.random.hex(16);
  cloud.security_groups[group.id] = group;
  Xml xml;
  xml.text("groupId", group.id);
  write_tags(xml, group.tags);
  return xml;
}

int port_of(const Query& query, const std::string& name) {  // -1: not given, or each
  return query.text(name) == "-1" ? -1 : query.integer(name).value_or(-1);
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html
void check_ports(const Query& query, const SecurityRule& rule) {
  const std::string& protocol = rule.protocol;
  const bool numbered = !protocol.empty() && protocol.size() < 4 &&
                        std::atoi(protocol.c_str()) < 256 &&
                        protocol.find_first_not_of("0123456789") == protocol.npos;
  const std::set<std::string> known = {"-1", "tcp", "udp", "icmp", "icmpv6"};
  if (!numbered && !known.contains(protocol))
    query.refuse("InvalidParameterValue",
                 "Invalid value '" + protocol + "' for IP protocol. Unknown protocol.");
  if (protocol != "tcp" && protocol != "udp" && protocol != "6" && protocol != "17") return;
  if (rule.from < 0 || rule.to < 0)
    query.refuse(
        "InvalidParameterValue",
        "Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.");
  if (rule.from > rule.to || rule.to > 65535)
    query.refuse("InvalidParameterValue", "Invalid TCP/UDP port range (" +
                                              std::to_string(rule.from) + ":" +
                                              std::to_string(rule.to) + ")");
}

bool is_cidr(const std::string& text) {  // of IPv4
  const auto slash = text.find('/');
  in_addr address{};
  const std::string bits = slash == text.npos ? "" : text.substr(slash + 1);
  return inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) == 1 && !bits.empty() &&
         bits.size() < 3 && bits.find_first_not_of("0123456789") == bits.npos &&
         std::atoi(bits.c_str()) <= 32;
}

// One rule for each source of IpPermissions.N.
std::vector<SecurityRule> rules_of(const Query& query) {
  std::vector<SecurityRule> rules;
  for (const std::string& it : query.members("IpPermissions")) {
    const SecurityRule rule{.protocol = query.required(it + "IpProtocol"),
                            .from = port_of(query, it + "FromPort"),
                            .to = port_of(query, it + "ToPort")};
    check_ports(query, rule);
    const auto add = [&](const std::string& source, const char* member,
                         std::string SecurityRule::*what) {
      SecurityRule& added = rules.emplace_back(rule);
      added.*what = query.required(source + member);
      added.description = query.text(source + "Description");
      if (!added.cidr.empty() && !is_cidr(added.cidr))
        query.refuse("InvalidParameterValue", "CIDR block " + added.cidr + " is malformed");
    };
    for (const std::string& source : query.members(it + "Groups"))
      add(source, "GroupId", &SecurityRule::group);
    for (const std::string& source : query.members(it + "IpRanges"))
      add(source, "CidrIp", &SecurityRule::cidr);
  }
  if (rules.empty()) query.required("IpPermissions");
  return rules;
}

Answer authorize(Session& session, std::vector<SecurityRule> SecurityGroup::*direction) {
  Cloud& cloud = session.cloud;
  const std::string id = security_group(session);
  const auto rules = rules_of(session.query);
  SPOTTER_CHECK_QUERY(session);
  const auto group = cloud.security_groups.find(id);
  if (group == cloud.security_groups.end()) return tl::unexpected(no_security_group(id));
  std::vector<SecurityRule>& there = group->second.*direction;
  for (const SecurityRule& it : rules) {
    if (!it.group.empty() && !cloud.security_groups.contains(it.group))
      return tl::unexpected(no_security_group(it.group));
    if (std::ranges::find(there, it) != there.end())
      return refusal("InvalidPermission.Duplicate", "the specified rule already exists");
  }
  there.insert(there.end(), rules.begin(), rules.end());
  return returned_true();
}

Answer revoke(Session& session, std::vector<SecurityRule> SecurityGroup::*direction) {
  const std::string id = security_group(session);
  const auto rules = rules_of(session.query);
  SPOTTER_CHECK_QUERY(session);
  const auto group = session.cloud.security_groups.find(id);
  if (group == session.cloud.security_groups.end()) return tl::unexpected(no_security_group(id));
  std::vector<SecurityRule>& there = group->second.*direction;
  for (const SecurityRule& it : rules)
    if (std::ranges::find(there, it) == there.end())
      return refusal("InvalidPermission.NotFound", "The specified rule does not exist");
  for (const SecurityRule& it : rules) std::erase(there, it);
  return returned_true();
}

Answer revoke_ingress(Session& session) { return revoke(session, &SecurityGroup::in); }
Answer revoke_egress(Session& session) { return revoke(session, &SecurityGroup::out); }
Answer authorize_ingress(Session& session) { return authorize(session, &SecurityGroup::in); }
Answer authorize_egress(Session& session) { return authorize(session, &SecurityGroup::out); }

Answer describe_security_groups(Session& session) {
  std::vector<SecurityGroup> rows;
  const auto names = session.query.list("GroupName");
  for (const auto& [id, it] : session.cloud.security_groups)
    if (names.empty() || std::ranges::find(names, it.name) != names.end()) rows.push_back(it);
  for (const std::string& name : names)
    if (std::ranges::find(rows, name, &SecurityGroup::name) == rows.end())
      return refusal("InvalidGroup.NotFound", "The security group '" + name + "' does not exist");
  const auto page = select<SecurityGroup>(
      session, std::move(rows), session.query.list("GroupId"), "InvalidGroup.NotFound",
      {"group-id", "group-name", "vpc-id"},
      [](const SecurityGroup& it) -> Facts {
        return {{"group-id", it.id}, {"group-name", it.name}, {"vpc-id", vpc}};
      },
      [](const SecurityGroup& it) { return it.id; });
  if (!page) return tl::unexpected(page.error());
  const Cloud& cloud = session.cloud;
  Xml xml;
  xml.items("securityGroupInfo", page->rows, [&](const SecurityGroup& it) {
    xml.text("ownerId", cloud.settings.account);
    xml.text("groupId", it.id);
    xml.text("groupName", it.name);
    xml.text("groupDescription", it.description);
    xml.text("vpcId", vpc);
    write_rules(xml, cloud, "ipPermissions", it.in);
    write_rules(xml, cloud, "ipPermissionsEgress", it.out);
    write_tags(xml, it.tags);
  });
  xml.optional("nextToken", page->next);
  return xml;
}

Answer delete_security_group(Session& session) {
  Cloud& cloud = session.cloud;
  const std::string id = security_group(session);
  SPOTTER_CHECK_QUERY(session);
  if (!cloud.security_groups.contains(id)) return tl::unexpected(no_security_group(id));
  if (cloud.security_groups[id].name == "default")
    return refusal("CannotDelete", "the specified group: \"" + id +
                                       "\" name: \"default\" cannot "
                                       "be deleted by a user");
  bool used = false;
  cloud.instances.each([&](const Instance& instance) {
    for (const Interface& it : instance.interfaces)
      used = used || (instance.state != InstanceState::Terminated &&
                      std::ranges::find(it.groups, id) != it.groups.end());
  });
  for (const auto& [other, group] : cloud.security_groups)
    for (const auto* rules : {&group.in, &group.out})
      for (const SecurityRule& it : *rules) used = used || (other != id && it.group == id);
  if (used) return refusal("DependencyViolation", "resource " + id + " has a dependent object");
  cloud.security_groups.erase(id);
  return returned_true();
}

// Refuses an interface that cannot be, by itself or beside those before it.
std::optional<ApiError> refuse_interface(const Cloud& cloud, const Interface& it, bool first,
                                         const Network& network) {
  if (it.type != "interface" && it.type != "efa" && it.type != "efa-only")
    return ApiError{"InvalidParameterValue", "Invalid interface type: " + it.type};
  if (first && (it.card != 0 || it.device != 0 || it.type == "efa-only"))
    return ApiError{"InvalidParameterValue",
                    "The primary network interface has network card index 0, device index 0, and "
                    "is not EFA-only."};
  if (it.card < 0 || it.card >= network.cards)
    return ApiError{"InvalidParameterValue",
                    "The network card index " + std::to_string(it.card) + " is out of range."};
  if (it.device < 0 || it.device >= network.interfaces)
    return ApiError{"InvalidParameterValue",
                    "The specified number '" + std::to_string(it.device) +
                        "' for the device index exceeds the maximum number of network interfaces "
                        "supported by the network card at network card index " +
                        std::to_string(it.card) + "."};
  for (const std::string& group : it.groups)
    if (!cloud.security_groups.contains(group)) return no_security_group(group);
  return std::nullopt;
}

}  // namespace

std::string security_group(Session& session) {
  const std::string name = session.query.text("GroupName");
  if (name.empty() || session.query.has("GroupId")) return session.query.required("GroupId");
  for (const auto& [id, it] : session.cloud.security_groups)
    if (it.name == name) return id;
  session.query.refuse("InvalidGroup.NotFound", "The security group '" + name + "' does not exist");
  return {};
}

std::vector<Interface> interfaces_of(const Query& query, const std::string& name) {
  std::vector<Interface> found;
  for (const std::string& it : query.members(name))
    found.push_back({.card = query.integer(it + "NetworkCardIndex").value_or(0),
                     .device = query.integer(it + "DeviceIndex").value_or(0),
                     .type = query.text(it + "InterfaceType", "interface"),
                     .groups = query.list(it + "SecurityGroupId"),
                     .subnet = query.text(it + "SubnetId")});
  return found;
}

std::vector<std::string> groups_of(const TemplateVersion& version) {
  std::vector<std::string> groups = version.security_groups;
  for (const Interface& it : version.interfaces)
    groups.insert(groups.end(), it.groups.begin(), it.groups.end());
  return groups;
}

std::optional<ApiError> refuse_interfaces(const Cloud& cloud, const LaunchOption& option) {
  if (option.interfaces.empty()) return std::nullopt;
  if (!option.security_groups.empty())
    return ApiError{"InvalidParameterCombination",
                    "Network interfaces and an instance-level security groups may not be specified "
                    "on the same request"};
  const std::string type = option.type.str();
  const Network network = network_of_type(type).value_or(Network());
  std::map<int, int> of_card, efas_of_card;
  std::set<std::pair<int, int>> places;
  int efas = 0;
  for (const Interface& it : option.interfaces) {
    const bool first = &it == &option.interfaces.front();
    if (auto wrong = refuse_interface(cloud, it, first, network)) return wrong;
    const bool efa = it.type.starts_with("efa");
    efas += efa;
    if (efa && network.efas == 0)
      return ApiError{"InvalidParameterCombination",
                      type + " instances do not support Elastic Fabric Adapters."};
    if (!places.insert({it.card, it.device}).second)
      return ApiError{"InvalidParameterValue", "Two network interfaces have one device index."};
    if (++of_card[it.card] > network.interfaces || (efas_of_card[it.card] += efa) > 1 ||
        efas > network.efas)
      return ApiError{"AttachmentLimitExceeded",
                      "The maximum number of network interfaces of " + type + " is exceeded."};
  }
  return std::nullopt;
}

void add_security_group_operations(Operations& operations) {
  operations["AuthorizeSecurityGroupEgress"] = authorize_egress;
  operations["AuthorizeSecurityGroupIngress"] = authorize_ingress;
  operations["RevokeSecurityGroupEgress"] = revoke_egress;
  operations["RevokeSecurityGroupIngress"] = revoke_ingress;
  operations["CreateSecurityGroup"] = create_security_group;
  operations["DeleteSecurityGroup"] = delete_security_group;
  operations["DescribeSecurityGroups"] = describe_security_groups;
}

}  // namespace spotter::world
