#include "agent/commands/machines.hpp"

#include <cstdio>
#include <thread>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/iam.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/requests.hpp"

namespace spotter::command {
namespace {

std::string rule(const char* direction, const std::string& group) {
  return "aws ec2 authorize-security-group-" + std::string(direction) + " --group-id " + group +
         " --ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{GroupId=" + group + "}]'";
}

// EC2 launches nothing with a group that is not there.
Finding unseen_groups(const char* check, const CallError& error, const char* open) {
  if (!error.code.starts_with("InvalidGroup")) return unanswered(check, error, open);
  return {check, Verdict::Fail, error.message,
          "name security groups of this region in launch.security_groups"};
}

// An answer that does not come is a finding, and its part of the network is not judged.
template <class Request, class Item>
void look(AwsCalls& calls, Request request, std::optional<std::vector<Item>>& into,
          Findings& findings, const char* open) {
  auto seen = calls.ask_all(std::move(request));
  if (seen)
    into = std::move(*seen);
  else
    findings.push_back(unanswered("network", seen.error(), open));
}

// Those in which the fleet may launch; none where EC2 does not say, of which examine_places() says
// so.
std::vector<wire::Subnet> subnets_of(AwsCalls& calls, const config::Launch& launch) {
  wire::DescribeSubnets request{.subnets = launch.subnets};
  if (launch.subnets.empty()) request.filters = {{"default-for-az", {"true"}}};
  if (launch.subnets.empty() && !launch.zones.empty())
    request.filters.push_back({"availability-zone", launch.zones});
  return calls.ask_all(std::move(request)).value_or(std::vector<wire::Subnet>());
}

// A launch that names no group has the VPC's own.
wire::DescribeSecurityGroups groups_of(const config::Launch& launch,
                                       const std::vector<std::string>& vpcs) {
  if (!launch.security_groups.empty()) return {launch.security_groups};
  return {{}, {{"vpc-id", vpcs}, {"group-name", {"default"}}}};
}

// PyTorch asks for no secret (systemd/SECURITY.md): who reaches a gang's ports, or is in its
// groups?
Findings examine_gang(AwsCalls& calls, const config::Job& job,
                      const std::vector<wire::SecurityGroup>& groups) {
  std::vector<std::string> ids, from, machines;
  for (const wire::SecurityGroup& it : groups) ids.push_back(it.id);
  for (const wire::SecurityGroup& it : groups)
    std::ranges::copy_if(it.lets_in, std::back_inserter(from),
                         [&](const auto& other) { return std::ranges::count(ids, other) == 0; });
  const auto there = calls.ask_all(wire::DescribeInstances{{}, {{"instance.group-id", ids}}, {}});
  if (!there) return {unanswered("gang", there.error(), "whether others are in its groups")};
  for (const wire::Instance& it : *there)
    if (it.state != wire::InstanceState::Terminated &&
        wire::value_of(it.tags, tag::job) != job.name.str())
      machines.push_back(it.id.str());
  std::string who = from.empty() ? "" : joined(ids) + " lets in " + joined(from);
  if (!machines.empty())
    who += (who.empty() ? "" : "; ") + joined(machines) + " of another job is in it, too";
  if (who.empty()) return {};
  return {{"gang", Verdict::Warn, who + ": a gang's ports ask for no secret",
           "name in launch.security_groups a group of its own, which lets in itself alone"}};
}

using Clock = std::chrono::steady_clock;

// The longest that people have seen; AWS names no bound.
constexpr std::chrono::minutes until_it_is_known{2};
constexpr std::chrono::seconds until_asked_again{3};

bool is_unknown_profile(const CallError& error) {
  return error.message.find("Invalid IAM Instance Profile") != std::string::npos;
}

using Groups = std::vector<wire::PlacementGroup>;

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html
constexpr int most_in_spread = 7;
// EC2 names no bound for any of these: until a group that is made can be used, and one that is
// deleted is gone; until its instances, which are terminated, are out of it; and until a fleet that
// was ended is seen to be.
constexpr std::chrono::minutes until_it_settles{1};
constexpr std::chrono::minutes until_it_is_empty{2};
constexpr std::chrono::seconds until_fleets_settle{10};
constexpr std::chrono::seconds until_looked_again{2};

void say(const std::string& name, const std::string& what) {
  std::fprintf(stderr, "spotter: the placement group %s %s\n", name.c_str(), what.c_str());
}

Result<Groups, CallError> groups_of_name(AwsCalls& calls, const std::string& name) {
  auto page = TRY(calls.ask(wire::DescribePlacementGroups{name}));
  return std::move(page.items);
}

// Leaves out a group that is being deleted: it can neither be used nor made.
const wire::PlacementGroup* usable(const Groups& groups) {
  const auto found = std::ranges::find_if(
      groups, [](const auto& it) { return it.state != "deleting" && it.state != "deleted"; });
  return found == groups.end() ? nullptr : &*found;
}

bool is_own(const config::Job& job) {
  return job.launch->placement_group == config::own_placement_group;
}

// Without a tag of ours a user has made it, who may have put something else into it.
bool belongs_to(const wire::PlacementGroup& group, const JobKey& job) {
  return wire::value_of(group.tags, tag::job) == job.name &&
         (job.storage.empty() || wire::value_of(group.tags, tag::storage) == job.storage);
}

std::string not_ours(const wire::PlacementGroup& group) {
  const std::string job = wire::value_of(group.tags, tag::job);
  const std::string storage = wire::value_of(group.tags, tag::storage);
  return "the placement group " + group.name + " is not this job's: " +
         (job.empty() ? "it has no tag of Spotter's"
                      : "its tags say that it is of " + job + " on " + storage);
}

// The job's fleet that is at work; empty: there is none.
Result<std::string, CallError> fleet_at_work(AwsCalls& calls, const JobKey& job) {
  const auto fleets = TRY(job_fleets(calls, job));
  const auto found = std::ranges::find_if(fleets, &JobFleet::is_at_work);
  return found == fleets.end() ? std::string() : found->fleet.id.str();
}

// Waits for the group's end: a launch might take it for one that stays.
void await_end(AwsCalls& calls, const std::string& name) {
  const auto until = Clock::now() + until_it_settles;
  while (Clock::now() < until) {
    const auto groups = groups_of_name(calls, name);
    if (!groups || groups->empty()) return;
    std::this_thread::sleep_for(until_looked_again);
  }
}

// Whether one of launch.security_groups lets all traffic in from itself and out to itself: EFA's
// packets are dropped without that.
Findings examine_efa(AwsCalls& calls, const config::Job& job) {
  const char* const check = "efa";
  if (!job.launch->efa) return {};
  const auto& named = job.launch->security_groups;
  const auto groups = calls.ask_all(wire::DescribeSecurityGroups{named});
  if (!groups)
    return {unseen_groups(check, groups.error(), "whether the security groups let EFA through")};
  const auto fits = [](const auto& it) { return it.lets_itself_in && it.lets_itself_out; };
  const auto it = std::ranges::find_if(*groups, fits);
  if (it != groups->end())
    return {{check, Verdict::Ok, it->id + " lets EFA's traffic through", ""}};
  return {{check, Verdict::Fail,
           "none of launch.security_groups lets all traffic in from itself and out to itself, as "
           "EFA needs",
           "let one: " + rule("ingress", named.front()) + "; " + rule("egress", named.front())}};
}

// Judges the ways out of the subnets of a launch.
Findings examine_network(AwsCalls& calls, const config::Job& job) {
  const config::Launch& launch = *job.launch;
  launch::Network network{.region = calls.region(), .subnets = subnets_of(calls, launch)};
  if (network.subnets.empty()) return {};
  std::vector<std::string> vpcs;
  for (const wire::Subnet& it : network.subnets)
    if (!it.vpc.empty() && std::ranges::count(vpcs, it.vpc) == 0) vpcs.push_back(it.vpc);
  Findings findings;
  look(calls, wire::DescribeRouteTables{vpcs}, network.tables, findings,
       "whether the subnets have a way to AWS");
  look(calls, wire::DescribeVpcEndpoints{vpcs}, network.endpoints, findings,
       "which endpoints the subnets have");
  look(calls, wire::DescribeNatGateways{vpcs}, network.nats, findings,
       "whether their NAT gateways work");
  look(calls, wire::DescribeNetworkAcls{vpcs}, network.acls, findings,
       "whether the network ACLs let machines ask AWS");
  if (auto groups = calls.ask_all(groups_of(launch, vpcs)))
    network.groups = std::move(*groups);
  else
    findings.push_back(unseen_groups("network", groups.error(),
                                     "whether the security groups let machines ask AWS"));
  wire::DescribeSecurityGroups of_endpoints;
  for (const wire::VpcEndpoint& it : network.endpoints.value_or(std::vector<wire::VpcEndpoint>()))
    of_endpoints.groups.insert(of_endpoints.groups.end(), it.groups.begin(), it.groups.end());
  if (!of_endpoints.groups.empty())
    network.endpoint_groups = calls.ask_all(of_endpoints).value_or(network.endpoint_groups);
  if (job.gang && network.groups && !network.groups->empty())
    append(findings, examine_gang(calls, job, *network.groups));
  const auto interfaces = efa_interfaces(calls, job);
  network.has_several_interfaces = interfaces && interfaces->size() > 1;
  append(findings, launch::judge_network(network, launch::needed_by(job)));
  return findings;
}

struct PlacementSeen {
  Findings findings;
  std::string strategy;  // cluster, spread, partition; empty: there is none, or it is unknown
};

// Fails where one that is named is not there, or the job's own is somebody else's.
PlacementSeen examine_placement_group(AwsCalls& calls, const config::Job& job) {
  const char* const check = "placement group";
  const std::string name = launch::placement_group_of(job);
  if (name.empty()) return {};
  const auto groups = groups_of_name(calls, name);
  if (!groups) return {{unanswered(check, groups.error(), "whether it can be used")}, {}};
  const wire::PlacementGroup* const group = usable(*groups);
  if (group == nullptr && !is_own(job))
    return {{{check, Verdict::Fail, "there is no placement group " + name + " in this region",
              "make it, or say `placement_group: own`, and `spotter launch` makes one"}},
            {}};
  if (group == nullptr) return {};  // it will be made
  if (is_own(job) && !belongs_to(*group, key_of(job)))
    return {{{check, Verdict::Fail, not_ours(*group),
              "give the job another name, or name that group in launch.placement_group"}},
            {}};
  const std::string& strategy = group->strategy;
  if (strategy == "spread" && job.launch->capacity > most_in_spread)
    return {{{check, Verdict::Fail,
              name + " is of the strategy spread, and takes " + std::to_string(most_in_spread) +
                  " instances in a zone",
              "name a group of the strategy cluster, or a smaller gang.size"}},
            strategy};
  return {{{check, Verdict::Ok, name + " is there, a " + strategy, ""}}, strategy};
}

}  // namespace

Result<launch::Interfaces, CallError> efa_interfaces(AwsCalls& calls, const config::Job& job) {
  if (!job.launch->efa) return launch::Interfaces();
  const auto types =
      TRY(calls.ask_all(wire::DescribeInstanceTypes{job.launch->instance_types, {}}));
  auto shared = TRY(launch::shared_interfaces(types));
  return shared;
}

Findings examine_room(AwsCalls& calls, const config::Batch& batch) {
  wire::DescribeInstanceTypes request{};
  for (const std::string& it : batch.environment.instance_types) {
    // Batch's own choice, which changes by the year.
    if (it == "optimal" || it.starts_with("default_")) return {};
    request.like.push_back(it.find('.') == it.npos ? it + ".*" : it);
  }
  const auto types = calls.ask_all(request);
  if (types) return launch::judge_batch(batch, *types);
  return {unanswered("batch", types.error(), "whether a set fits an instance type")};
}

Findings examine_machines(AwsCalls& calls, const config::Job& job,
                          const std::vector<launch::SentPackage>& packages) {
  Findings findings;
  launch::Machines machines;
  for (const launch::SentPackage& it : packages) machines.packages.push_back(it.file);
  machines.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  auto types = calls.ask_all(wire::DescribeInstanceTypes{job.launch->instance_types, {}});
  if (types)
    machines.types = std::move(*types);
  else
    findings.push_back(
        unanswered("gpus", types.error(), "whether the instance types fit the job and the image"));
  if (const auto image = image_of(calls, *job.launch)) {
    machines.image = *image;
    auto seen = calls.ask_all(wire::DescribeImages{{*image}, {}});
    const bool missing = !seen && seen.error().code.starts_with("InvalidAMIID.");
    if (seen)
      machines.seen = std::move(*seen);
    else if (missing)
      machines.seen.emplace();
    else
      findings.push_back(unanswered("image", seen.error(), "whether " + *image + " fits"));
  }
  append(findings, examine_efa(calls, job));
  append(findings, examine_network(calls, job));
  auto placed = examine_placement_group(calls, job);
  append(findings, std::move(placed.findings));
  machines.named_strategy = std::move(placed.strategy);
  append(findings, launch::judge_machines(job, machines));
  return findings;
}

Finding examine_profile(AwsCalls& calls, const config::Launch& launch) {
  constexpr const char* check = "profile";
  const std::string name = wire::iam_name(launch.profile).name;
  const auto found = calls.ask(wire::GetInstanceProfile{name, calls.region()});
  if (found && !found->role.empty())
    return {check, Verdict::Ok, name + " gives instances the role " + found->role, ""};
  if (found)
    return {check, Verdict::Fail, "the instance profile " + name + " has no role",
            "add it: `spotter iam roles` prints the commands"};
  if (found.error().code == "NoSuchEntity")
    return {check, Verdict::Fail, "this account has no instance profile " + name,
            "make it: `spotter iam roles` prints the commands"};
  return unanswered(check, found.error(), "whether it is there");
}

Result<void, CallError> await_profile(AwsCalls& calls, const wire::Query& run,
                                      const char* command) {
  const auto until = Clock::now() + until_it_is_known;
  for (bool said = false;; said = true) {
    const auto answer = calls.perform(wire::dry_run(run));
    if (answer || !is_unknown_profile(answer.error())) return {};
    if (Clock::now() > until) return tl::unexpected(answer.error());
    if (!said)
      io::complain(command,
                   "EC2 does not know the instance profile yet: IAM tells it of a new one within "
                   "two minutes; waiting");
    std::this_thread::sleep_for(until_asked_again);
  }
}

bool placement_group_is_missing(AwsCalls& calls, const config::Job& job) {
  if (!is_own(job)) return false;
  const auto groups = groups_of_name(calls, launch::placement_group_of(job));
  return groups && groups->empty();
}

Result<void, CallError> provide_placement_group(AwsCalls& calls, const config::Job& job) {
  const std::string name = launch::placement_group_of(job);
  if (name.empty()) return {};
  const auto until = Clock::now() + until_it_settles;
  for (bool made = false;; std::this_thread::sleep_for(until_looked_again)) {
    auto groups = groups_of_name(calls, name);
    // A group that the user names is not ours to make; the fleet shows whether it can be used.
    if (!is_own(job) && (!groups || usable(*groups) == nullptr)) return {};
    if (groups && usable(*groups) == nullptr && !made) {
      const auto answer = calls.perform(launch::create_placement_group(job));
      // Another launch was faster, perhaps this job's; or one of the name is still being deleted.
      if (!answer && answer.error().code != "InvalidPlacementGroup.Duplicate")
        return tl::unexpected(answer.error());
      made = answer.has_value();
      if (made) say(name, "is made");
      groups = groups_of_name(calls, name);
    }
    if (!groups) return tl::unexpected(groups.error());
    const wire::PlacementGroup* const group = usable(*groups);
    if (is_own(job) && group != nullptr && !belongs_to(*group, key_of(job)))
      return failed(not_ours(*group));
    if (group != nullptr && group->state == "available") return {};
    if (Clock::now() > until)
      return failed("the placement group " + name + " cannot be used yet: " +
                    (groups->empty() ? "EC2 does not show it" : "it is " + groups->front().state) +
                    "; launch again later");
  }
}

Result<void, CallError> end_placement_group(AwsCalls& calls, const JobKey& job,
                                            const EndGroup& how) {
  const std::string name = "spotter-" + job.name;
  const auto begun = Clock::now();
  for (;; std::this_thread::sleep_for(until_looked_again)) {
    const auto groups = groups_of_name(calls, name);
    if (!groups && groups.error().forbidden() && !how.known) {
      std::fprintf(stderr,
                   "spotter: whether the job has a placement group is open: %s; of a gang "
                   "`spotter iam launcher` prints what allows to look\n",
                   groups.error().message.c_str());
      return {};
    }
    if (!groups) return tl::unexpected(groups.error());
    const wire::PlacementGroup* const group = usable(*groups);
    if (group == nullptr && how.wait) await_end(calls, name);
    if (group == nullptr || !belongs_to(*group, job)) return {};
    if (job.storage.empty()) {
      say(name, "stays, as nothing that runs says whose it is: `spotter stop job.yaml` deletes it");
      return {};
    }
    // A launch that has just begun relies on it, before any instance is in it.
    const auto fleet = TRY(fleet_at_work(calls, job));
    if (!fleet.empty()) {
      if (how.wait && Clock::now() - begun < until_fleets_settle) continue;
      say(name, "stays, as " + fleet + " is at work");
      return {};
    }
    const auto gone = calls.perform(launch::delete_placement_group(name));
    if (gone || gone.error().code == "InvalidPlacementGroup.Unknown") break;
    if (gone.error().code != "InvalidPlacementGroup.InUse") return tl::unexpected(gone.error());
    if (!how.wait) {
      say(name, "stays, as its instances still end: `spotter stop --wait` deletes it");
      return {};
    }
    if (Clock::now() - begun > until_it_is_empty)
      return failed("the placement group " + name +
                    " stays: something other than the job's instances is in it");
  }
  if (how.wait) await_end(calls, name);
  say(name, "is deleted");
  return {};
}

}  // namespace spotter::command
