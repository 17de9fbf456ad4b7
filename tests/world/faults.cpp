// The faults that break things on request, by name.
#include <algorithm>

#include "tests/world/arguments.hpp"
#include "tests/world/world.hpp"

namespace spotter::world {

namespace {

constexpr Duration a_minute{60000};

using Fault = void (*)(World&, Cloud&, Arguments&);
struct NamedFault {
  const char* name;
  const char* arguments;
  Fault apply;
};

void imds(World&, Cloud& cloud, Arguments& given) {
  const InstanceId instance(given.text("instance", ""));
  const std::string mode = given.text("mode", "down");
  const Duration lasts = given.duration("for", a_minute);
  cloud.metadata_faults[instance] = {mode, cloud.now + lasts,
                                     given.duration("delay", Duration{2000})};
  if (mode == "none") cloud.metadata_faults.erase(instance);
}

// "a past time may stay": https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/
// spot-instance-termination-notices.html, "if the instance is not terminated at that time"
void failed_termination(World&, Cloud& cloud, Arguments& given) {
  Instance* instance = cloud.instances.find(InstanceId(given.text("instance", "")));
  if (instance) {
    instance->notice = Notice{InterruptionAction::Terminate, cloud.now - a_minute, cloud.number()};
  }
}

void capacity(World& world, Cloud& cloud, Arguments& given) {
  const auto fits = [&](const char* name) {
    const bool any = given.text(name, "any") == "any";
    return any ? std::nullopt : std::optional(given.count(name, 0));
  };
  const Zone zone(given.text("zone", ""));
  const std::string of_on_demand = given.text("on-demand", "");
  const bool of_spot = of_on_demand.empty() || !given.text("instances", "").empty();
  if (of_spot) world.set_capacity(zone, fits("instances"), cloud.now);
  if (!of_on_demand.empty()) world.set_on_demand(zone, fits("on-demand"), cloud.now);
}

void fleet_tags_late(World& world, Cloud& cloud, Arguments& given) {
  Range& late = world.settings().fleet_tags;
  late.most = given.duration("most", Duration{90000});
  late.least = std::min(given.duration("least", Duration{5000}), late.most);
  for (auto it = cloud.agenda.begin(); late.most == Duration{0} && it != cloud.agenda.end();) {
    const auto* tagged = std::get_if<FleetTagged>(&it->second);
    if (tagged) Instances(cloud).on(*tagged);
    it = tagged ? cloud.agenda.erase(it) : std::next(it);
  }
}

// The emulator's own network, which holds up no packet: what descriptions show.
void subnet(World&, Cloud& cloud, Arguments& given) {
  cloud.subnets[given.text("subnet", "")] = {
      .way = given.text("way", "internet"),
      .public_addresses = given.text("public", "true") != "false",
      .ipv6_only = given.text("ipv6-only", "false") == "true",
      .closed = given.text("acl", "open") == "closed"};
}

constexpr const char* everything =
    R"({"Statement":[{"Action":"*","Effect":"Allow","Principal":"*","Resource":"*"}]})";

void endpoint(World&, Cloud& cloud, Arguments& given) {
  const std::string service = given.text("service", "s3");
  std::erase_if(cloud.endpoints, [&](const auto& it) { return it.service == service; });
  if (!given.on()) return;
  cloud.endpoints.push_back({.id = "vpce-0" + cloud.random.hex(16),
                             .service = service,
                             .gateway = given.text("kind", "interface") == "gateway",
                             .private_names = given.text("private-names", "true") != "false",
                             .policy = given.text("policy", everything),
                             .group = given.text("group", "sg-00000000000000000")});
}

void clear(World& world, Cloud& cloud, Arguments&) {
  cloud.subnets.clear();
  cloud.endpoints.clear();
  cloud.admissions.clear();
  cloud.storage_faults = {};
  cloud.cancels_to_fail = 0;
  cloud.metadata_faults.clear();
  world.settings().consistency_lag = Duration{0};
  world.settings().fleet_tags = {};
  world.settings().empty_pages = false;
}

const NamedFault faults[] = {
    {"throttle", "action=A|* for=60s",
     [](World& world, Cloud& cloud, Arguments& it) {
       world.throttle(it.text("action", "*"), it.duration("for", a_minute), cloud.now);
     }},
    {"latency", "action=A|* of=1s",
     [](World& world, Cloud&, Arguments& it) {
       world.set_latency(it.text("action", "*"), it.duration("of", Duration{1000}));
     }},
    {"fail-next", "action=A|* count=1 code=InternalError|timeout-carried-out|timeout-lost|...",
     [](World& world, Cloud&, Arguments& it) {
       world.fail_next(it.text("action", "*"), it.count("count", 1),
                       it.text("code", "InternalError"));
     }},
    // DryRunOperation: the answer to a caller that may do it, and asked not to (API reference,
    // "DryRun"); a policy or proxy that adds the parameter makes of every call a rehearsal.
    {"deny", "action=A|* on=true|false code=UnauthorizedOperation|DryRunOperation",
     [](World& world, Cloud&, Arguments& it) {
       world.deny(it.text("action", "*"), it.on(), it.text("code", "UnauthorizedOperation"));
     }},
    {"imds", "mode=down|slow|401|403|429|500|empty|garbage|half|none instance=I for=60s delay=2s",
     imds},
    {"metadata-tags", "on=true|false, for instances launched from now on",
     [](World& world, Cloud&, Arguments& it) { world.settings().metadata_tags = it.on(); }},
    {"tokens-optional",
     "on=true|false, where a template does not say, for instances launched later",
     [](World& world, Cloud&, Arguments& it) { world.settings().tokens_optional = it.on(); }},
    {"failed-termination", "instance=I", failed_termination},
    {"capacity", "zone=Z instances=any|N (spot) on-demand=any|N: either or both", capacity},
    {"not-offered", "type=T zone=Z on=true|false: DescribeInstanceTypeOfferings does not name it",
     [](World&, Cloud& cloud, Arguments& it) {
       const std::pair what{it.text("type", ""), it.text("zone", "")};
       if (it.on())
         cloud.not_offered.insert(what);
       else
         cloud.not_offered.erase(what);
     }},
    {"subnet",
     "subnet=S way=internet|nat|failed-nat|gone-nat|private-nat|transit|ipv6|none "
     "public=true|false "
     "ipv6-only=true|false acl=open|closed: its routes and addresses, as descriptions show them",
     subnet},
    {"endpoint",
     "service=s3|ec2|... kind=gateway|interface private-names=true|false policy=JSON "
     "group=sg-...|the VPC's default on=true|false",
     endpoint},
    {"consistency", "lag=5s",
     [](World& world, Cloud&, Arguments& it) {
       world.settings().consistency_lag = it.duration("lag", Duration{5000});
     }},
    {"fleet-tags-late",
     "least=5s most=90s: a fleet's tags, on instances launched from now on; most=0s: all at once",
     fleet_tags_late},
    {"block-cleanup", "least=120s most=300s: until an instance of a capacity block is terminated",
     [](World& world, Cloud&, Arguments& it) {
       Range& within = world.settings().block_cleanup;
       within.most = it.duration("most", Duration{300000});
       within.least = std::min(it.duration("least", Duration{120000}), within.most);
     }},
    {"empty-pages", "on=true|false: a listing's first page has nothing, and a token",
     [](World& world, Cloud&, Arguments& it) { world.settings().empty_pages = it.on(); }},
    {"attach-hangs", "for=60s",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.attach_hangs_until = cloud.now + it.duration("for", a_minute);
     }},
    {"attach-busy", "for=60s",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.attach_busy_until = cloud.now + it.duration("for", a_minute);
     }},
    {"device-absent", "count=1, attached and not there until it is attached again",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.devices_to_hide = it.count("count", 1);
     }},
    {"detach-hangs", "for=60s",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.detach_hangs_until = cloud.now + it.duration("for", a_minute);
     }},
    {"device-late", "by=5s, after `attached`",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.device_late = it.duration("by", Duration{5000});
     }},
    {"device-by-name", "on=true|false: /dev/xvdf as on Xen, and no link by the volume's id",
     [](World&, Cloud& cloud, Arguments& it) { cloud.storage_faults.device_by_name = it.on(); }},
    {"volume-fails", "count=1",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.volumes_to_fail = it.count("count", 1);
     }},
    {"key-forbidden", "on=true|false",
     [](World&, Cloud& cloud, Arguments& it) { cloud.storage_faults.key_forbidden = it.on(); }},
    {"snapshot-fails", "count=1",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.snapshots_to_fail = it.count("count", 1);
     }},
    {"snapshot-recoverable", "count=1",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.snapshots_to_recover = it.count("count", 1);
     }},
    {"snapshot-takes", "time=1h",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.snapshot_takes = it.duration("time", Duration{3600000});
     }},
    {"cancel-fails", "count=1",
     [](World&, Cloud& cloud, Arguments& it) { cloud.cancels_to_fail = it.count("count", 1); }},
    {"clear", "(every fault off)", clear},
};

}  // namespace

Admission World::admit(const std::string& action, Time now) {
  enter(now);
  return cloud_.admissions.admit(action, cloud_.now);
}

void World::set_latency(const std::string& action, Duration latency) {
  cloud_.admissions.set_latency(action, latency);
}

void World::throttle(const std::string& action, Duration duration, Time now) {
  enter(now);
  cloud_.admissions.throttle(action, cloud_.now + duration);
}

void World::fail_next(const std::string& action, int count, const std::string& code) {
  cloud_.admissions.fail_next(action, count, code);
}

void World::deny(const std::string& action, bool denied, const std::string& code) {
  cloud_.admissions.deny(action, denied, code);
}

Expected<void> World::fault(const std::string& name,
                            const std::map<std::string, std::string>& arguments, Time now) {
  enter(now);
  const auto found = std::find_if(std::begin(faults), std::end(faults),
                                  [&](const NamedFault& it) { return name == it.name; });
  if (found == std::end(faults)) {
    return refusal("InvalidParameterValue", "There is no fault '" + name + "'.");
  }
  World rehearsal(cloud_.settings);  // a malformed argument changes nothing
  Arguments given(arguments);
  found->apply(rehearsal, rehearsal.cloud_, given);
  if (!given.problem().empty()) return refusal("InvalidParameterValue", given.problem());
  found->apply(*this, cloud_, given);
  cloud_.record("fault", name);
  return {};
}

std::vector<std::string> World::fault_names() {
  std::vector<std::string> lines;
  for (const NamedFault& it : faults) lines.push_back(std::string(it.name) + ' ' + it.arguments);
  return lines;
}

}  // namespace spotter::world
