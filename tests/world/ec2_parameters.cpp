// What is refused of an EC2 request before its operation looks at it.
#include "tests/world/ec2_parameters.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

#include "tests/world/ec2_members.hpp"

namespace spotter::world {
namespace {

bool is_one_of(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != words.npos; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || words[at - 1] == ' ';
    if (begins && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/ each operation, MaxResults. 0: no bound
// is documented.
struct PageSize {
  int least;
  int most;
};
const std::map<std::string, PageSize> page_sizes = {
    {"DescribeInstances", {5, 1000}},
    {"DescribeVolumes", {5, 0}},
    {"DescribeVolumeStatus", {5, 1000}},
    {"DescribeInstanceStatus", {5, 1000}},
    {"DescribeSnapshots", {5, 0}},
    {"DescribeTags", {5, 1000}},
    {"DescribeNatGateways", {5, 1000}},
    {"DescribeNetworkAcls", {5, 1000}},
    {"DescribeRouteTables", {5, 100}},
    {"DescribeSecurityGroups", {5, 1000}},
    {"DescribeSubnets", {5, 1000}},
    {"DescribeInstanceTypes", {5, 100}},
    {"DescribeInstanceTypeOfferings", {5, 1000}},
    {"DescribeSpotInstanceRequests", {5, 1000}},
    {"DescribeSpotPriceHistory", {1, 1000}},
    {"DescribeFleets", {1, 1000}},
    {"DescribeFleetHistory", {1, 1000}},
    {"DescribeFleetInstances", {1, 1000}},
    {"DescribeSpotFleetRequests", {1, 1000}},
    {"DescribeSpotFleetInstances", {1, 1000}},
    {"DescribeSpotFleetRequestHistory", {1, 1000}},
    {"DescribeLaunchTemplates", {1, 200}},
    {"DescribeLaunchTemplateVersions", {1, 200}},
};

// "You cannot specify this parameter and the ... IDs parameter in the same request."
const std::map<std::string, const char*> ids_instead = {{"DescribeInstances", "InstanceId"},
                                                        {"DescribeVolumes", "VolumeId"},
                                                        {"DescribeVolumeStatus", "VolumeId"},
                                                        {"DescribeSnapshots", "SnapshotId"}};

// The types of resources that an operation makes, and so can tag.
struct Taggable {
  const char* operation;
  const char* parameter;
  const char* types;
};
constexpr const char* of_launches =
    "instance volume network-interface spot-instances-request elastic-gpu";
constexpr Taggable taggable[] = {
    {"CreateVolume", "TagSpecification", "volume"},
    {"CreateSnapshot", "TagSpecification", "snapshot"},
    {"CreatePlacementGroup", "TagSpecification", "placement-group"},
    {"CreateSecurityGroup", "TagSpecification", "security-group"},
    {"CreateLaunchTemplate", "TagSpecification", "launch-template"},
    {"CreateLaunchTemplate", "LaunchTemplateData.TagSpecification", of_launches},
    {"CreateLaunchTemplateVersion", "LaunchTemplateData.TagSpecification", of_launches},
    {"RequestSpotFleet", "SpotFleetRequestConfig.TagSpecification", "spot-fleet-request"},
    {"RunInstances", "TagSpecification", of_launches},
    {"RequestSpotInstances", "TagSpecification", "spot-instances-request"},
    {"CopySnapshot", "TagSpecification", "snapshot"},
    {"CreateFleet", "TagSpecification", "fleet"}};

std::optional<ApiError> check_names(const std::string& action, const Query& query) {
  const Ec2Members& members = ec2_members().at(action);
  for (const auto& [name, value] : query.all()) {
    const std::string first = name.substr(0, name.find('.'));
    const std::string path = without_numbers(name);
    if (first == "Action" || first == "Version" || members.honoured.honours(path, value)) continue;
    if (!members.honoured.knows(first) && !members.refused.knows(first))
      return ApiError{"UnknownParameter", "The parameter " + first + " is not recognized"};
    std::istringstream below(path.substr(first.size()));
    for (std::string part; std::getline(below, part, '.');)
      if (!part.empty() && !is_ec2_member(part))
        return ApiError{"UnknownParameter", "The parameter " + path + " is not recognized"};
    return ApiError{"UnsupportedOperation", not_honoured(path, value)};
  }
  return std::nullopt;
}

// Those of the service's history.
std::optional<ApiError> check_version(const Query& query) {
  constexpr std::string_view versions =
      "2016-11-15 2016-09-15 2016-04-01 2015-10-01 2015-04-15 2015-03-01 2014-10-01 2014-09-01";
  const std::string version = query.text("Version");
  if (version.empty() || is_one_of(versions, version)) return std::nullopt;
  return ApiError{"NoSuchVersion",
                  "The requested version (" + version + ") of service AmazonEC2 does not exist"};
}

std::optional<ApiError> check_page(const std::string& action, const Query& query) {
  const auto bounds = page_sizes.find(action);
  const auto wanted = query.integer("MaxResults");
  if (!wanted || bounds == page_sizes.end()) return std::nullopt;
  const auto [least, most] = bounds->second;
  if (*wanted < least || (most > 0 && *wanted > most))
    return ApiError{"InvalidParameterValue",
                    "Value ( " + std::to_string(*wanted) +
                        " ) for parameter maxResults is invalid. Expecting a value " +
                        (*wanted < least ? "greater than " + std::to_string(least)
                                         : "less than " + std::to_string(most)) +
                        "."};
  const auto ids = ids_instead.find(action);
  if (ids == ids_instead.end() || query.list(ids->second).empty()) return std::nullopt;
  return ApiError{"InvalidParameterCombination",
                  "The parameter " + std::string(ids->second) + " cannot be used with MaxResults"};
}

// "If the fleet type is instant, specify a resource type of fleet ... or instance": API_CreateFleet
std::optional<ApiError> check_tags(const std::string& action, const Query& query) {
  for (const Taggable& it : taggable) {
    if (action != it.operation) continue;
    std::string types = it.types;
    if (action == "CreateFleet" && query.text("Type") == "instant") types += " instance volume";
    for (const std::string& member : query.members(it.parameter)) {
      const std::string type = query.text(member + "ResourceType");
      if (!type.empty() && is_one_of(types, type)) continue;
      return ApiError{"InvalidParameterValue",
                      "'" + type + "' is not a valid taggable resource type for this operation."};
    }
  }
  return std::nullopt;
}

// The parameters that are ids of what an account makes, and what becomes of one that is none.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
struct IdForm {
  std::string_view path;
  std::string_view prefix;
  const char* malformed;
};
constexpr IdForm id_forms[] = {
    {"FleetId", "fleet-", "InvalidFleetId.Malformed"},
    {"GroupId", "sg-", "InvalidGroupId.Malformed"},
    {"InstanceId", "i-", "InvalidInstanceID.Malformed"},
    {"LaunchTemplateId", "lt-", "InvalidLaunchTemplateId.Malformed"},
    {"NatGatewayId", "nat-", "NatGatewayMalformed"},
    {"NetworkAclId", "acl-", "InvalidNetworkAclId.Malformed"},
    {"RouteTableId", "rtb-", "InvalidRouteTableId.Malformed"},
    {"SnapshotId", "snap-", "InvalidSnapshotID.Malformed"},
    {"SourceSnapshotId", "snap-", "InvalidSnapshotID.Malformed"},
    {"SpotFleetRequestId", "sfr-", "InvalidSpotFleetRequestId.Malformed"},
    {"SpotInstanceRequestId", "sir-", "InvalidSpotInstanceRequestID.Malformed"},
    {"VolumeId", "vol-", "InvalidVolumeID.Malformed"},
    {"VpcEndpointId", "vpce-", "InvalidVpcEndpointId.Malformed"},
};

// Of 8 or 17 digits; fleets have a UUID.
bool is_id(std::string_view text, const IdForm& form) {
  if (!text.starts_with(form.prefix)) return false;
  text.remove_prefix(form.prefix.size());
  const bool uuid = form.path == "FleetId" || form.path == "SpotFleetRequestId";
  const bool request = form.path == "SpotInstanceRequestId";
  const auto odd = text.find_first_not_of(request ? "0123456789abcdefghijklmnopqrstuvwxyz"
                                          : uuid  ? "0123456789abcdef-"
                                                  : "0123456789abcdef");
  return odd == text.npos && (uuid ? text.size() == 36 : text.size() == 8 || text.size() == 17);
}

// An id without its prefix has errors of its own (Query::identifier); what several fleets are
// called is refused one by one.
std::optional<ApiError> check_ids(const std::string& action, const Query& query) {
  if (action == "DeleteFleets" || action == "CancelSpotFleetRequests" ||
      action == "DescribePlacementGroups")
    return std::nullopt;
  for (const auto& [name, value] : query.all()) {
    const std::string path = without_numbers(name);
    const auto form = std::ranges::find(id_forms, path, &IdForm::path);
    if (form == std::end(id_forms) || value.empty() || is_id(value, *form)) continue;
    const bool of_storage = form->prefix == "vol-" || form->prefix == "snap-";
    if (of_storage && !value.starts_with(form->prefix)) continue;
    return ApiError{form->malformed, "Invalid id: \"" + value + "\" (expecting \"" +
                                         std::string(form->prefix) + "...\")"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> check_parameters(const std::string& action, const Query& query) {
  if (auto wrong = check_version(query)) return wrong;
  if (auto wrong = check_names(action, query)) return wrong;
  if (auto wrong = check_ids(action, query)) return wrong;
  if (auto wrong = check_page(action, query)) return wrong;
  return check_tags(action, query);
}

}  // namespace spotter::world
