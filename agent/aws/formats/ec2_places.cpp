#include "agent/aws/formats/ec2_places.hpp"

#include "agent/aws/formats/ec2_xml.hpp"
#include "agent/aws/formats/partition.hpp"

namespace spotter::wire {
namespace {

Query reading(const char* action, const std::string& next_token) {
  Query query{.service = "ec2",
              .action = action,
              .version = "2016-11-15",
              .repeatable = Repeatable::Read,
              .parameters = {}};
  if (!next_token.empty()) query.parameters["NextToken"] = next_token;
  return query;
}

void put_list(Query& query, const std::string& name, const std::vector<std::string>& values) {
  int index = 0;
  for (const std::string& value : values)
    query.parameters[name + "." + std::to_string(++index)] = value;
}

void put_filters(Query& query, const std::vector<Filter>& filters) {
  int index = 0;
  for (const Filter& filter : filters) {
    const std::string prefix = "Filter." + std::to_string(++index);
    query.parameters[prefix + ".Name"] = filter.name;
    put_list(query, prefix + ".Value", filter.values);
  }
}

// `logicalGpuCount` says how many devices the machine sees if it has only a part of a GPU.
std::uint64_t gpus_of(const Fields& type) {
  std::uint64_t all = 0;
  for (const Fields& gpu : type.optional_child("gpuInfo").optional_items("gpus")) {
    if (gpu.optional_text("manufacturer") != "NVIDIA") continue;
    const auto devices = gpu.optional_number("logicalGpuCount");
    all += devices ? *devices : gpu.number("count");
  }
  return all;
}

std::optional<std::uint64_t> efas_of(const Fields& network) {
  const std::string supported = network.optional_text("efaSupported");
  if (supported == "false") return 0;
  if (supported != "true") return std::nullopt;
  return network.optional_child("efaInfo").optional_number("maximumEfaInterfaces");
}

std::vector<std::uint64_t> cards_of(const Fields& network) {
  std::vector<std::uint64_t> cards;
  for (const Fields& it : network.optional_items("networkCards"))
    cards.push_back(it.number("networkCardIndex"));
  return cards;
}

TypeSize read_type(const Fields& item) {
  const Fields network = item.optional_child("networkInfo");
  return {
      .type = item.name<InstanceType>("instanceType"),
      .vcpus = item.child("vCpuInfo").number("defaultVCpus"),
      .gpus = gpus_of(item),
      .architectures =
          item.optional_child("processorInfo").optional_texts("supportedArchitectures"),
      .most_volumes = item.optional_child("ebsInfo").optional_number("maximumEbsAttachments"),
      .needs_ena = network.optional_text("enaSupport") == "required",
      .placements = item.optional_child("placementGroupInfo").optional_texts("supportedStrategies"),
      .cards = cards_of(network),
      .efas = efas_of(network)};
}

Image read_image(const Fields& item) {
  Image image{.id = item.text("imageId"),
              .state = item.text("imageState"),
              .architecture = item.text("architecture"),
              .created = item.optional_time("creationDate"),
              .deprecated = item.optional_time("deprecationTime"),
              .root = item.optional_text("rootDeviceName"),
              .ena = item.flag("enaSupport")};
  for (const Fields& device : item.optional_items("blockDeviceMapping")) {
    const bool of_the_machine = !device.optional_text("virtualName").empty();  // ephemeral0
    if (!of_the_machine) ++image.volumes;
    if (device.optional_text("deviceName") != image.root) continue;
    image.root_gib = device.optional_child("ebs").optional_number("volumeSize").value_or(0);
  }
  return image;
}

LaunchTemplate read_launch_template(const Fields& fields) {
  return {fields.text("launchTemplateId"), fields.text("launchTemplateName"),
          std::to_string(fields.number("latestVersionNumber"))};
}

PlacementGroup read_placement_group(const Fields& item) {
  return {item.text("groupName"), item.text("state"), item.text("strategy"), item.tags()};
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html: -1 is all protocols
bool all_of_itself(const Fields& group, const char* rules, const std::string& id) {
  for (const Fields& rule : group.optional_items(rules)) {
    if (rule.text("ipProtocol") != "-1") continue;
    for (const Fields& other : rule.optional_items("groups"))
      if (other.optional_text("groupId") == id) return true;
  }
  return false;
}

SecurityGroup read_security_group(const Fields& item) {
  const std::string id = item.text("groupId");
  return {id, all_of_itself(item, "ipPermissions", id),
          all_of_itself(item, "ipPermissionsEgress", id)};
}

template <class Item, class Read>
Result<Page<Item>> read_page(std::string_view xml, const char* action, const char* set, Read read) {
  return read_answer(xml, action, [&](const Fields& fields) {
    Page<Item> page;
    for (const Fields& item : fields.items(set)) page.items.push_back(read(item));
    page.next_token = fields.optional_text("nextToken");
    return page;
  });
}

}  // namespace

Query encode(const GetCallerIdentity&) {
  return {.service = "sts",
          .action = "GetCallerIdentity",
          .version = "2011-06-15",
          .repeatable = Repeatable::Read,
          .parameters = {}};
}

Query encode(const GetInstanceProfile& request) {
  return {.service = "iam",
          .action = "GetInstanceProfile",
          .version = "2010-05-08",
          .repeatable = Repeatable::Read,
          .parameters = {{"InstanceProfileName", request.name}},
          .region = Region(partition_of(request.region.view()).iam_region)};
}

Query encode(const DescribeAvailabilityZones& request) {
  return reading("DescribeAvailabilityZones", request.next_token);
}

Query encode(const DescribeSubnets& request) {
  Query query = reading("DescribeSubnets", request.next_token);
  put_list(query, "SubnetId", request.subnets);
  put_filters(query, request.filters);
  return query;
}

Query encode(const DescribeInstanceTypeOfferings& request) {
  Query query = reading("DescribeInstanceTypeOfferings", request.next_token);
  query.parameters["LocationType"] = "availability-zone";
  put_filters(query, {{"instance-type", request.types}});
  return query;
}

Query encode(const DescribeInstanceTypes& request) {
  Query query = reading("DescribeInstanceTypes", request.next_token);
  put_list(query, "InstanceType", request.types);
  return query;
}

Query encode(const DescribeImages& request) {
  Query query = reading("DescribeImages", request.next_token);
  put_list(query, "ImageId", request.images);
  query.parameters["IncludeDeprecated"] = "true";
  query.parameters["IncludeDisabled"] = "true";
  return query;
}

Query encode(const GetSpotPlacementScores& request) {
  Query query = reading("GetSpotPlacementScores", request.next_token);
  put_list(query, "InstanceType", request.types);
  query.parameters["TargetCapacity"] = std::to_string(request.capacity);
  query.parameters["SingleAvailabilityZone"] = "true";
  query.parameters["RegionName.1"] = request.region.str();
  return query;
}

Query encode(const DescribeLaunchTemplates& request) {
  Query query = reading("DescribeLaunchTemplates", request.next_token);
  put_filters(query, {{"launch-template-name", {request.name}}});
  return query;
}

Query encode(const DescribePlacementGroups& request) {
  Query query = reading("DescribePlacementGroups", {});
  put_filters(query, {{"group-name", {request.name}}});
  return query;
}

Query encode(const DescribeSecurityGroups& request) {
  Query query = reading("DescribeSecurityGroups", request.next_token);
  put_list(query, "GroupId", request.groups);
  return query;
}

Query dry_run(Query query) {
  query.parameters["DryRun"] = "true";
  query.repeatable = Repeatable::Read;
  return query;
}

template <>
Result<CallerIdentity> decode<GetCallerIdentity>(std::string_view xml) {
  return read_answer(xml, "GetCallerIdentity", [](const Fields& fields) {
    const Fields result = fields.child("GetCallerIdentityResult");
    return CallerIdentity{result.text("Account"), result.text("Arn")};
  });
}

template <>
Result<InstanceProfile> decode<GetInstanceProfile>(std::string_view xml) {
  return read_answer(xml, "GetInstanceProfile", [](const Fields& fields) {
    const Fields profile = fields.child("GetInstanceProfileResult").child("InstanceProfile");
    const auto roles = profile.members("Roles");
    return InstanceProfile{roles.empty() ? "" : roles.front().text("RoleName")};
  });
}

template <>
Result<Page<DescribeAvailabilityZones::Place>> decode<DescribeAvailabilityZones>(
    std::string_view xml) {
  using Place = DescribeAvailabilityZones::Place;
  return read_page<
      Place>(xml, "DescribeAvailabilityZones", "availabilityZoneInfo", [](const Fields& item) {
    return Place{item.name<Zone>("zoneName"), item.optional_text("zoneId"), item.text("zoneState")};
  });
}

template <>
Result<Page<Subnet>> decode<DescribeSubnets>(std::string_view xml) {
  return read_page<Subnet>(xml, "DescribeSubnets", "subnetSet", [](const Fields& item) {
    return Subnet{item.text("subnetId"), item.name<Zone>("availabilityZone"),
                  item.number("availableIpAddressCount")};
  });
}

template <>
Result<Page<TypeOffering>> decode<DescribeInstanceTypeOfferings>(std::string_view xml) {
  return read_page<TypeOffering>(
      xml, "DescribeInstanceTypeOfferings", "instanceTypeOfferingSet", [](const Fields& item) {
        return TypeOffering{item.name<InstanceType>("instanceType"), item.name<Zone>("location")};
      });
}

template <>
Result<Page<TypeSize>> decode<DescribeInstanceTypes>(std::string_view xml) {
  return read_page<TypeSize>(xml, "DescribeInstanceTypes", "instanceTypeSet", read_type);
}

template <>
Result<Page<Image>> decode<DescribeImages>(std::string_view xml) {
  return read_page<Image>(xml, "DescribeImages", "imagesSet", read_image);
}

template <>
Result<Page<SpotPlacementScore>> decode<GetSpotPlacementScores>(std::string_view xml) {
  return read_page<SpotPlacementScore>(
      xml, "GetSpotPlacementScores", "spotPlacementScoreSet", [](const Fields& item) {
        return SpotPlacementScore{item.text("availabilityZoneId"), item.number("score")};
      });
}

template <>
Result<Page<LaunchTemplate>> decode<DescribeLaunchTemplates>(std::string_view xml) {
  return read_page<LaunchTemplate>(xml, "DescribeLaunchTemplates", "launchTemplates",
                                   read_launch_template);
}

Result<LaunchTemplate> decode_created_template(std::string_view xml) {
  return read_answer(xml, "CreateLaunchTemplate", [](const Fields& fields) {
    return read_launch_template(fields.child("launchTemplate"));
  });
}

Result<std::string> decode_template_version(std::string_view xml) {
  return read_answer(xml, "CreateLaunchTemplateVersion", [](const Fields& fields) {
    return std::to_string(fields.child("launchTemplateVersion").number("versionNumber"));
  });
}

template <>
Result<Page<PlacementGroup>> decode<DescribePlacementGroups>(std::string_view xml) {
  return read_page<PlacementGroup>(xml, "DescribePlacementGroups", "placementGroupSet",
                                   read_placement_group);
}

template <>
Result<Page<SecurityGroup>> decode<DescribeSecurityGroups>(std::string_view xml) {
  return read_page<SecurityGroup>(xml, "DescribeSecurityGroups", "securityGroupInfo",
                                  read_security_group);
}

namespace {

FleetId read_fleet_id(const Fields& fields, const char* name) {
  const auto id = fields.name<FleetId>(name);
  if (id.empty()) fields.note(name, "is empty");
  return id;
}

}  // namespace

Result<CreatedFleet> decode_created_fleet(std::string_view xml) {
  return read_answer(xml, "CreateFleet", [](const Fields& fields) {
    CreatedFleet made{.id = read_fleet_id(fields, "fleetId"), .instances = 0, .errors = {}};
    for (const Fields& some : fields.optional_items("fleetInstanceSet"))
      made.instances += some.optional_items("instanceIds").size();
    for (const Fields& item : fields.optional_items("errorSet")) {
      const std::string error =
          item.optional_text("errorCode") + ": " + item.optional_text("errorMessage");
      if (made.errors.find(error) != std::string::npos) continue;  // the same of another pool
      made.errors += (made.errors.empty() ? "" : "; ") + error;
    }
    return made;
  });
}

Result<FleetId> decode_requested_spot_fleet(std::string_view xml) {
  return read_answer(xml, "RequestSpotFleet", [](const Fields& fields) {
    return read_fleet_id(fields, "spotFleetRequestId");
  });
}

}  // namespace spotter::wire
