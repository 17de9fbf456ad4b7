// The ways out of a launch's subnets (machines.hpp).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/config/trainer_role.hpp"
#include "agent/launch/machines.hpp"

namespace spotter::launch {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* check = "network";
constexpr const char* everywhere = "0.0.0.0/0";

// No and Open have a reason: "rtb-1 has no route to the internet".
struct Way {
  enum class Is : std::uint8_t { Yes, Open, No };
  Is is = Is::Yes;
  std::string why = {};
  std::string advice = {};
};

std::string both(const Texts& all) { return joined(all, ", ", " and "); }

std::string name_of(const wire::Subnet& subnet) {
  return subnet.id + " (" + subnet.zone.str() + ")";
}

class Judge {
 public:
  Judge(const Network& network, const wire::Subnet& subnet) : network_(network), subnet_(subnet) {
    if (!network.tables) return;
    for (const wire::RouteTable& it : *network.tables) {
      if (it.vpc != subnet.vpc) continue;
      if (std::ranges::count(it.subnets, subnet.id) > 0) {
        table_ = &it;
        return;
      }
      if (it.is_main) table_ = &it;
    }
  }

  Way internet() const {
    if (table_ == nullptr) return {Way::Is::Open, "its route table was not to be seen"};
    const auto route = std::ranges::find(table_->routes, everywhere, &wire::Route::to);
    return route == table_->routes.end() ? without_default_route() : by(*route);
  }

  Way to(const Needed& needed) const {
    const Way way = internet();
    if (way.is == Way::Is::Yes || endpoint_of(needed.service) != nullptr) return {};
    if (way.is == Way::Is::No && !needed.service.empty() && !network_.endpoints)
      return {Way::Is::Open, way.why + ", and endpoints were not to be seen"};
    return way;
  }

  // The endpoint by which a service is asked: its name leads there, or its table does.
  const wire::VpcEndpoint* endpoint_of(const std::string& service) const {
    if (service.empty() || !network_.endpoints) return nullptr;
    const std::string end = "." + network_.region.str() + "." + service;
    for (const wire::VpcEndpoint& it : *network_.endpoints) {
      if (it.vpc != subnet_.vpc || !it.service.ends_with(end) || it.state != "available") continue;
      const bool here = table_ != nullptr && std::ranges::count(it.route_tables, table_->id) > 0;
      if (it.type == "Gateway" ? here : it.type == "Interface" && it.has_private_names) return &it;
    }
    return nullptr;
  }

  Finding judge(const std::vector<Needed>& needed) const {
    if (subnet_.is_ipv6_only)
      return {check, Verdict::Fail,
              name_of(subnet_) +
                  " has addresses of IPv6 alone: machines there ask the metadata "
                  "service, EC2 and S3 by IPv4",
              "name subnets with IPv4 addresses in launch.subnets"};
    std::vector<Needed> lacking;
    Texts names, open;
    Way why;
    bool stops = false;
    for (const Needed& it : needed) {
      const Way way = to(it);
      if (way.is == Way::Is::Yes) continue;
      why = way;
      if (way.is == Way::Is::Open) open.push_back(it.name);
      if (way.is == Way::Is::Open) continue;
      lacking.push_back(it);
      names.push_back(it.name);
      stops = stops || it.stops;
    }
    if (!lacking.empty())
      return {check, stops ? Verdict::Fail : Verdict::Warn,
              "a machine in " + name_of(subnet_) + " does not reach " +
                  joined(names, ", ", " or ") + ": " + internet().why,
              advice_for(lacking, internet())};
    if (!open.empty())
      return {check, Verdict::Warn, name_of(subnet_) + ": " + why.why,
              "whether a machine there reaches " + both(open) + " is open"};
    return {check, Verdict::Ok, subnet_.id, ""};
  }

 private:
  Way by(const wire::Route& route) const {
    if (route.leads_nowhere)
      return {Way::Is::No, table_->id + " leads out by " +
                               (route.through.empty() ? "something" : route.through) +
                               ", which is gone"};
    if (route.through.starts_with("nat-")) return by_nat(route.through);
    if (!route.through.starts_with("igw-"))
      return {Way::Is::Open, "where " + route.through + " leads is not to be seen"};
    if (network_.has_several_interfaces)
      return {Way::Is::No, table_->id + " leads out by " + route.through +
                               ", for which a machine with several interfaces of EFA gets no "
                               "public address"};
    if (!subnet_.gives_public_addresses)
      return {
          Way::Is::No,
          table_->id + " leads out by " + route.through + ", and a machine gets no public address",
          "aws ec2 modify-subnet-attribute --subnet-id " + subnet_.id +
              " --map-public-ip-on-launch"};
    return {};
  }

  Way by_nat(const std::string& id) const {
    if (!network_.nats) return {Way::Is::Open, "what " + id + " is was not to be seen"};
    const auto nat = std::ranges::find(*network_.nats, id, &wire::NatGateway::id);
    if (nat == network_.nats->end()) return {Way::Is::Open, "EC2 shows no " + id};
    if (nat->state == "failed" || nat->state.starts_with("delet"))
      return {Way::Is::No, table_->id + " leads out by " + id + ", which is " + nat->state};
    if (nat->state != "available") return {Way::Is::Open, id + " is " + nat->state};
    if (!nat->is_public)
      return {Way::Is::Open,
              id + " is a private NAT gateway, and where it leads is not to be seen"};
    return {};
  }

  // Routes to a part of all addresses may lead to a proxy, or be all addresses in parts.
  Way without_default_route() const {
    bool ipv6 = false;
    for (const wire::Route& it : table_->routes) {
      if (it.through == "local" || it.through.starts_with("vpce-") || it.leads_nowhere) continue;
      if (it.to.find(':') == it.to.npos)
        return {Way::Is::Open,
                "where " + table_->id + " leads by " + it.through + " is not to be seen"};
      ipv6 = true;
    }
    return {Way::Is::No, table_->id + " has no route to the internet" +
                             (ipv6 ? ", but for IPv6, by which AWS is not asked" : "")};
  }

  std::string advice_for(const std::vector<Needed>& lacking, const Way& internet) const {
    if (!internet.advice.empty())
      return "name other subnets in launch.subnets, or: " + internet.advice;
    std::string advice =
        "name other subnets in launch.subnets, or give this one a way: a NAT gateway";
    for (const Needed& it : lacking) {
      if (it.service.empty()) continue;
      advice += "; aws ec2 create-vpc-endpoint --vpc-id " + subnet_.vpc + " --service-name " +
                "com.amazonaws." + network_.region.str() + "." + it.service;
      advice += it.service == "s3" && table_ != nullptr
                    ? " --route-table-ids " + table_->id
                    : " --vpc-endpoint-type Interface --subnet-ids " + subnet_.id;
    }
    return advice;
  }

  const Network& network_;
  const wire::Subnet& subnet_;
  const wire::RouteTable* table_ = nullptr;
};

// A policy that is not EC2's own, of everything for everybody, may keep the job's role out.
// https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html
bool lets_all(const std::string& policy) {
  if (policy.empty()) return true;
  const auto document = wire::parsed_json(policy);
  if (!document.is_object() || !document.contains("Statement")) return false;
  auto statements = document["Statement"];
  if (statements.is_object()) statements = nlohmann::json::array({statements});
  bool all = false;
  for (const auto& it : statements) {
    if (!it.is_object() || it.value("Effect", "") != "Allow") return false;
    const auto is_star = [&](const char* key) { return it.contains(key) && it[key] == "*"; };
    all = all || (is_star("Action") && is_star("Resource") && is_star("Principal") &&
                  !it.contains("Condition"));
  }
  return all;
}

// No group of the endpoint lets a machine in. One that was not seen may.
bool keeps_out(const Network& network, const wire::VpcEndpoint& endpoint) {
  if (!network.groups || endpoint.groups.empty()) return false;
  const auto& seen = network.endpoint_groups;
  return std::ranges::all_of(endpoint.groups, [&](const std::string& id) {
    const auto group = std::ranges::find(seen, id, &wire::SecurityGroup::id);
    return group != seen.end() && std::ranges::all_of(group->https_from, [&](const auto& from) {
             const auto is_it = [&](const wire::SecurityGroup& it) { return it.id == from; };
             return from.starts_with("sg-") && std::ranges::none_of(*network.groups, is_it);
           });
  });
}

void judge_endpoints(Findings& findings, const Network& network,
                     const std::vector<Needed>& needed) {
  Texts said;
  for (const wire::Subnet& subnet : network.subnets)
    for (const Needed& it : needed) {
      const wire::VpcEndpoint* endpoint = Judge(network, subnet).endpoint_of(it.service);
      if (endpoint == nullptr || std::ranges::count(said, endpoint->id) > 0) continue;
      said.push_back(endpoint->id);
      const std::string which = endpoint->id + ", the endpoint of " + it.name + ", ";
      if (keeps_out(network, *endpoint))
        findings.push_back({check, it.stops ? Verdict::Fail : Verdict::Warn,
                            which + "lets no machine of this job in by HTTPS",
                            "aws ec2 authorize-security-group-ingress --group-id " +
                                endpoint->groups.front() +
                                " --protocol tcp --port 443 --source-group " +
                                (network.groups->empty() ? "sg-..." : network.groups->front().id)});
      if (!lets_all(endpoint->policy))
        findings.push_back({check, Verdict::Warn,
                            which + "has a policy of its own, which was not judged",
                            "it has to let through what `spotter iam agent` and `spotter iam "
                            "trainer` print"});
    }
}

// A machine has all these groups, and what one lets out goes out.
void judge_groups(Findings& findings, const Network& network) {
  if (!network.groups || network.groups->empty()) return;
  Texts ids, to;
  for (const wire::SecurityGroup& it : *network.groups) {
    ids.push_back(it.id);
    to.insert(to.end(), it.https_to.begin(), it.https_to.end());
    const bool elsewhere = std::ranges::none_of(network.subnets, [&](const wire::Subnet& subnet) {
      return subnet.vpc.empty() || it.vpc.empty() || subnet.vpc == it.vpc;
    });
    if (!elsewhere) continue;
    findings.push_back({check, Verdict::Fail,
                        it.id + " is a security group of " + it.vpc + ", and the subnets are of " +
                            network.subnets.front().vpc,
                        "name security groups of that VPC in launch.security_groups"});
    return;
  }
  if (to.empty())
    findings.push_back(
        {check, Verdict::Fail,
         both(ids) + (ids.size() == 1 ? " lets" : " let") + " no machine ask anything by HTTPS",
         "aws ec2 authorize-security-group-egress --group-id " + ids.front() +
             " --protocol tcp --port 443 --cidr " + everywhere});
  else if (std::ranges::count(to, everywhere) == 0)
    findings.push_back({check, Verdict::Warn,
                        both(ids) + " lets machines ask " + both(to) + " alone by HTTPS",
                        "whether all that the job needs is there is open"});
}

// The ports that a machine's answers come to: Linux's own range.
constexpr std::uint64_t least_own = 32768, most_own = 60999;

// The first entry that may let something through, and none before it that stops all: unless an acl
// surely stops everything, it is well.
bool stops_all(const wire::NetworkAcl& acl, bool is_out) {
  const std::uint64_t least = is_out ? 443 : least_own, most = is_out ? 443 : most_own;
  auto entries = acl.entries;
  std::ranges::sort(entries, {}, &wire::AclEntry::number);
  for (const wire::AclEntry& it : entries) {
    if (it.is_out != is_out || (it.protocol != "-1" && it.protocol != "6")) continue;
    if (it.block.find(':') != it.block.npos || it.least > most || it.most < least) continue;
    if (it.allows) return false;
    if (it.block == everywhere && it.least <= least && it.most >= most) return true;
  }
  return true;
}

void judge_acls(Findings& findings, const Network& network) {
  if (!network.acls) return;
  for (const wire::NetworkAcl& acl : *network.acls)
    for (const wire::Subnet& subnet : network.subnets) {
      if (std::ranges::count(acl.subnets, subnet.id) == 0) continue;
      const bool out = stops_all(acl, true);
      if (!out && !stops_all(acl, false)) continue;
      findings.push_back({check, Verdict::Fail,
                          acl.id + ", the network ACL of " + name_of(subnet) + ", lets no " +
                              (out ? "request by HTTPS out" : "answer in (TCP ports from 32768)"),
                          "name other subnets in launch.subnets, or change it"});
    }
}

}  // namespace

std::vector<Needed> needed_by(const config::Job& job) {
  const config::Launch& launch = *job.launch;
  const auto trainers = config::trainers_places(job);
  const bool s3 = launch.package.source.starts_with("s3://") || job.publish || job.claims ||
                  job.gang || job.fenced_at() || job.headed_at() || job.published_at() ||
                  !job.channels.all.empty() || !trainers.read.empty() ||
                  !trainers.checkpoints.empty();
  std::vector<Needed> needed;
  if (s3) needed.push_back({"S3", "s3", true});
  needed.push_back({"EC2", "ec2", true});
  if (launch.type == FleetKind::AutoScalingGroup)
    needed.push_back({"Auto Scaling", "autoscaling", true});
  const auto of_ssm = [](const auto& it) {
    return it.second.kind == config::SecretReference::Kind::Parameter;
  };
  const bool token = job.code && job.code->token &&
                     job.code->token->kind == config::SecretReference::Kind::Parameter;
  if (token || std::ranges::any_of(job.trainer.secrets, of_ssm))
    needed.push_back({"Systems Manager", "ssm", false});
  if (!config::has_instances_role(job.trainer)) needed.push_back({"STS", "sts", false});
  const std::string repository = job.code && job.code->folder.empty() ? job.code->repository : "";
  if (repository.find(':') != repository.npos && !repository.starts_with("s3://"))
    needed.push_back({"the code's server", "", false});
  if (launch.package.source == "apt") needed.push_back({"apt's servers", "", false});
  return needed;
}

Findings judge_network(const Network& network, const std::vector<Needed>& needed) {
  Findings findings;
  Texts good, names;
  for (const Needed& it : needed) names.push_back(it.name);
  for (const wire::Subnet& it : network.subnets) {
    Finding one = Judge(network, it).judge(needed);
    if (one.verdict == Verdict::Ok)
      good.push_back(one.what);
    else
      findings.push_back(std::move(one));
  }
  judge_groups(findings, network);
  judge_acls(findings, network);
  judge_endpoints(findings, network, needed);
  if (!good.empty() && network.tables)
    findings.push_back(
        {check, Verdict::Ok,
         "by its routes a machine in " + joined(good, ", ", " or ") + " reaches " + both(names),
         ""});
  return findings;
}

}  // namespace spotter::launch
