// Zones, regions and instance types: what does not change.
#include "tests/world/ec2_api.hpp"
#include "tests/world/offers.hpp"

namespace spotter::world {
namespace {

struct PlaceRow {
  std::string name;
  int number = 0;
  Tags tags;
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeAvailabilityZones.html
Answer describe_availability_zones(Session& session) {
  const Cloud& cloud = session.cloud;
  const std::string region = cloud.settings.region.str();
  std::vector<PlaceRow> rows;
  const auto ids = session.query.list("ZoneId");
  for (const Zone& zone : cloud.settings.zones)
    if (ids.empty() || std::ranges::find(ids, zone_id(cloud, zone)) != ids.end())
      rows.push_back({zone.str(), static_cast<int>(rows.size()) + 1, {}});
  for (const std::string& wanted : ids)
    if (std::ranges::none_of(
            rows, [&](const PlaceRow& it) { return zone_id(cloud, Zone(it.name)) == wanted; }))
      return refusal("InvalidParameterValue", "Invalid availability zone-id: " + wanted);
  const auto id = [&cloud](const PlaceRow& it) { return zone_id(cloud, Zone(it.name)); };
  const auto page = select<PlaceRow>(
      session, rows, session.query.list("ZoneName"), "InvalidParameterValue",
      {"zone-name", "zone-id", "region-name", "state", "zone-type", "group-name", "opt-in-status"},
      [&](const PlaceRow& it) -> Facts {
        return {{"zone-name", it.name},
                {"zone-id", id(it)},
                {"region-name", region},
                {"state", "available"},
                {"zone-type", "availability-zone"},
                {"group-name", region},
                {"opt-in-status", "opt-in-not-required"}};
      },
      [](const PlaceRow& it) { return it.name; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("availabilityZoneInfo", page->rows, [&](const PlaceRow& it) {
    xml.text("optInStatus", "opt-in-not-required");
    xml.text("zoneName", it.name);
    xml.text("zoneId", id(it));
    xml.text("zoneState", "available");
    xml.text("regionName", region);
    xml.text("groupName", region);
    xml.text("networkBorderGroup", region);
    xml.text("zoneType", "availability-zone");
    xml.element("messageSet", [] {});
  });
  return xml;
}

Answer describe_regions(Session& session) {
  const std::string region = session.cloud.settings.region.str();
  const auto page = select<PlaceRow>(
      session, {{region, 1, {}}}, session.query.list("RegionName"), "InvalidParameterValue",
      {"region-name", "endpoint", "opt-in-status"},
      [](const PlaceRow& it) -> Facts {
        return {{"region-name", it.name},
                {"endpoint", "ec2." + it.name + ".amazonaws.com"},
                {"opt-in-status", "opt-in-not-required"}};
      },
      [](const PlaceRow& it) { return it.name; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("regionInfo", page->rows, [&](const PlaceRow& it) {
    xml.text("regionName", it.name);
    xml.text("regionEndpoint", "ec2." + it.name + ".amazonaws.com");
    xml.text("optInStatus", "opt-in-not-required");
  });
  return xml;
}

// One subnet a zone, the default one of a default VPC.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSubnets.html
Answer describe_subnets(Session& session) {
  const Cloud& cloud = session.cloud;
  struct Row {
    std::string id;
    Zone zone;
    SubnetNetwork network;
    Tags tags;
  };
  std::vector<Row> rows;
  for (const Zone& zone : cloud.settings.zones) {
    const std::string id = subnet_of(cloud, zone);
    const auto changed = cloud.subnets.find(id);
    rows.push_back(
        {id, zone, changed == cloud.subnets.end() ? SubnetNetwork() : changed->second, {}});
  }
  const auto page = select<Row>(
      session, rows, session.query.list("SubnetId"), "InvalidSubnetID.NotFound",
      {"subnet-id", "vpc-id", "availability-zone", "default-for-az", "state"},
      [&](const Row& it) -> Facts {
        return {{"subnet-id", it.id},
                {"vpc-id", vpc},
                {"availability-zone", it.zone.str()},
                {"default-for-az", "true"},
                {"state", "available"}};
      },
      [](const Row& it) { return it.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("subnetSet", page->rows, [&](const Row& it) {
    xml.text("subnetId", it.id);
    xml.text("state", "available");
    xml.text("vpcId", vpc);
    if (!it.network.ipv6_only) xml.text("cidrBlock", block_of_subnet(cloud, it.id));
    xml.value("availableIpAddressCount", 251);
    xml.text("availabilityZone", it.zone.view());
    xml.value("defaultForAz", true);
    xml.value("mapPublicIpOnLaunch", it.network.public_addresses);
    xml.value("ipv6Native", it.network.ipv6_only);
  });
  xml.optional("nextToken", page->next);
  return xml;
}

struct TypeRow {
  const char* name;
  int processors;
  int mebibytes;
  const char* gpu;  // "": none
  int gpus;
  int gpu_mebibytes;
  int disks;  // of its own
  Tags tags;

  bool is_xen() const { return std::string_view(name).starts_with("p3."); }
  const char* architecture() const {
    return std::string_view(name).starts_with("g5g.") ? "arm64" : "x86_64";
  }
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-eni.md#network-cards
  Network network() const {
    const std::string_view type = name;
    if (type == "p4d.24xlarge") return {4, 15, 4};
    if (type == "p5.48xlarge") return {32, 2, 32};
    return {1, std::min(2 + processors / 4, 4), 0};
  }
  // "Burstable performance instances" are none that a cluster placement group takes:
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html
  bool is_burstable() const { return std::string_view(name).starts_with("t3."); }
  // A Nitro system has 28 attachments, less its network interface, disks and accelerators;
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/volume_limits.html
  int most_volumes() const { return is_xen() ? 39 : 28 - 1 - disks - gpus; }
};

// https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html (accelerated computing), gp.html
const std::vector<TypeRow>& types() {
  static const std::vector<TypeRow> rows = {
      {"c5.large", 2, 4096, "", 0, 0, 0, {}},
      {"g4dn.xlarge", 4, 16384, "T4", 1, 16384, 1, {}},
      {"g5.xlarge", 4, 16384, "A10G", 1, 24576, 1, {}},
      {"g5g.xlarge", 4, 8192, "T4g", 1, 16384, 0, {}},
      {"g6.xlarge", 4, 16384, "L4", 1, 22888, 1, {}},
      {"m5.large", 2, 8192, "", 0, 0, 0, {}},
      {"p3.2xlarge", 8, 62464, "V100", 1, 16384, 0, {}},
      {"p4d.24xlarge", 96, 1179648, "A100", 8, 40960, 8, {}},
      {"p5.48xlarge", 192, 2097152, "H100", 8, 81920, 8, {}},
      {"t3.micro", 2, 1024, "", 0, 0, 0, {}},
  };
  return rows;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_NetworkInfo.html
void write_network(Xml& xml, const TypeRow& it) {
  const Network network = it.network();
  std::vector<int> cards;
  for (int i = 0; i < network.cards; ++i) cards.push_back(i);
  xml.element("networkInfo", [&] {
    xml.text("enaSupport", it.is_xen() ? "supported" : "required");
    xml.value("maximumNetworkCards", network.cards);
    xml.value("maximumNetworkInterfaces", network.cards * network.interfaces);
    xml.items("networkCards", cards, [&](int card) {
      xml.value("networkCardIndex", card);
      xml.value("maximumNetworkInterfaces", network.interfaces);
    });
    xml.value("efaSupported", network.efas > 0);
    if (network.efas == 0) return;
    xml.element("efaInfo", [&] { xml.value("maximumEfaInterfaces", network.efas); });
  });
}

void write_type(Xml& xml, const TypeRow& it) {
  xml.text("instanceType", it.name);
  xml.value("currentGeneration", true);
  xml.element("supportedUsageClasses", [&] {
    xml.text("item", "on-demand");
    xml.text("item", "spot");
  });
  xml.text("hypervisor", it.is_xen() ? "xen" : "nitro");
  xml.element("processorInfo", [&] {
    xml.element("supportedArchitectures", [&] { xml.text("item", it.architecture()); });
  });
  xml.element("vCpuInfo", [&] { xml.value("defaultVCpus", it.processors); });
  xml.element("memoryInfo", [&] { xml.value("sizeInMiB", it.mebibytes); });
  xml.element("ebsInfo", [&] {
    xml.value("maximumEbsAttachments", it.most_volumes());
    xml.text("attachmentLimitType", it.is_xen() ? "dedicated" : "shared");
  });
  write_network(xml, it);
  xml.element("placementGroupInfo", [&] {
    xml.element("supportedStrategies", [&] {
      if (!it.is_burstable()) xml.text("item", "cluster");
      xml.text("item", "partition");
      xml.text("item", "spread");
    });
  });
  if (it.gpus == 0) return;
  xml.element("gpuInfo", [&] {
    xml.element("gpus", [&] {
      xml.element("item", [&] {
        xml.text("name", it.gpu);
        xml.text("manufacturer", "NVIDIA");
        xml.value("count", it.gpus);
        xml.element("memoryInfo", [&] { xml.value("sizeInMiB", it.gpu_mebibytes); });
      });
    });
    xml.value("totalGpuMemoryInMiB", it.gpus * it.gpu_mebibytes);
  });
}

Answer describe_instance_types(Session& session) {
  const auto page = select<TypeRow>(
      session, types(), session.query.list("InstanceType"), "InvalidInstanceType",
      {"instance-type", "current-generation", "hypervisor", "vcpu-info.default-vcpus",
       "memory-info.size-in-mib", "processor-info.supported-architecture", "supported-usage-class"},
      [](const TypeRow& it) -> Facts {
        return {{"instance-type", it.name},
                {"current-generation", "true"},
                {"hypervisor", it.is_xen() ? "xen" : "nitro"},
                {"processor-info.supported-architecture", it.architecture()},
                {"vcpu-info.default-vcpus", std::to_string(it.processors)},
                {"memory-info.size-in-mib", std::to_string(it.mebibytes)},
                {"supported-usage-class", "on-demand"},
                {"supported-usage-class", "spot"}};
      },
      [](const TypeRow& it) { return std::string(it.name); });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("instanceTypeSet", page->rows, [&](const TypeRow& it) { write_type(xml, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

// Every type in every zone, but where a fault says that a zone does not have it.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
Answer describe_instance_type_offerings(Session& session) {
  struct Row {
    std::string type;
    std::string location;
    Tags tags;
  };
  const std::string kind = session.query.text("LocationType", "region");
  if (kind == "outpost")
    return refusal("UnsupportedOperation", "The emulator does not honour LocationType=outpost");
  if (kind != "region" && kind != "availability-zone" && kind != "availability-zone-id")
    return refusal("InvalidParameterValue", "Invalid location type: " + kind);
  const bool by_id = kind == "availability-zone-id";
  std::vector<Row> rows;
  for (const TypeRow& type : types()) {
    if (kind == "region") rows.push_back({type.name, session.cloud.settings.region.str(), {}});
    if (kind == "region") continue;
    for (const Zone& zone : session.cloud.settings.zones)
      if (!session.cloud.not_offered.contains({type.name, zone.str()}))
        rows.push_back({type.name, by_id ? zone_id(session.cloud, zone) : zone.str(), {}});
  }
  const auto page = select<Row>(
      session, rows, {}, "", {"instance-type", "location"},
      [](const Row& it) -> Facts {
        return {{"instance-type", it.type}, {"location", it.location}};
      },
      [](const Row& it) { return it.type; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("instanceTypeOfferingSet", page->rows, [&](const Row& it) {
    xml.text("instanceType", it.type);
    xml.text("locationType", kind);
    xml.text("location", it.location);
  });
  xml.optional("nextToken", page->next);
  return xml;
}

// 9 where a zone has capacity, 1 where it has none; for one or two types "always low", here 3.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetSpotPlacementScores.html
Answer get_spot_placement_scores(Session& session) {
  const Query& query = session.query;
  const Cloud& cloud = session.cloud;
  const auto wanted = query.list("InstanceType");
  const auto capacity = query.integer("TargetCapacity");
  (void)query.required("TargetCapacity");
  SPOTTER_CHECK_QUERY(session);
  if (*capacity < 1 || *capacity > 2'000'000'000)
    return refusal("InvalidParameterValue", "TargetCapacity is not between 1 and 2000000000.");
  if (wanted.empty())
    return refusal("MissingParameter", "The request must contain the parameter InstanceTypes.");
  for (const std::string& type : wanted)
    if (std::ranges::none_of(types(), [&](const TypeRow& it) { return type == it.name; }))
      return refusal("InvalidParameterValue", "Invalid instance type: " + type);
  const auto regions = query.list("RegionName");
  const std::string own = cloud.settings.region.str();
  if (std::ranges::any_of(regions, [&](const std::string& each) { return each != own; }))
    return refusal("InvalidParameterValue", "Other regions than " + own + " are not modelled.");
  if (const auto most = query.integer("MaxResults"); most && (*most < 10 || *most > 1000))
    return refusal("InvalidParameterValue", "MaxResults is not between 10 and 1000.");
  struct Score {
    std::string zone;
    int score;
  };
  std::vector<Score> scores;
  const int best = wanted.size() < 3 ? 3 : 9;
  for (const Zone& zone : cloud.settings.zones) {
    const bool offered = std::ranges::any_of(wanted, [&](const std::string& type) {
      return !cloud.not_offered.contains({type, zone.str()});
    });
    const bool has = std::ranges::any_of(wanted, [&](const std::string& it) {
      return Instances(session.cloud).has_capacity({.type = InstanceType(it), .zone = zone}, true);
    });
    if (offered) scores.push_back({zone_id(cloud, zone), has ? best : 1});
  }
  if (!query.boolean("SingleAvailabilityZone")) {
    const auto highest = std::ranges::max_element(scores, {}, &Score::score);
    if (highest != scores.end()) scores = {{"", highest->score}};
  }
  const auto page = world::page(std::move(scores), query);
  SPOTTER_CHECK_QUERY(session);
  Xml xml;
  xml.items("spotPlacementScoreSet", page.rows, [&](const Score& it) {
    xml.text("region", own);
    xml.optional("availabilityZoneId", it.zone);
    xml.value("score", it.score);
  });
  xml.optional("nextToken", page.next);
  return xml;
}

}  // namespace

std::string architecture_of_type(const std::string& type) {
  const auto it = std::ranges::find(types(), type, &TypeRow::name);
  return it == types().end() ? "" : it->architecture();
}

std::optional<Network> network_of_type(const std::string& type) {
  const auto it = std::ranges::find(types(), type, &TypeRow::name);
  return it == types().end() ? std::nullopt : std::optional(it->network());
}

bool fits_in_a_cluster(const std::string& type) {
  const auto it = std::ranges::find(types(), type, &TypeRow::name);
  return it == types().end() || !it->is_burstable();
}

void add_place_operations(Operations& operations) {
  operations["DescribeAvailabilityZones"] = describe_availability_zones;
  operations["DescribeRegions"] = describe_regions;
  operations["DescribeInstanceTypes"] = describe_instance_types;
  operations["DescribeInstanceTypeOfferings"] = describe_instance_type_offerings;
  operations["DescribeSubnets"] = describe_subnets;
  operations["GetSpotPlacementScores"] = get_spot_placement_scores;
}

}  // namespace spotter::world
