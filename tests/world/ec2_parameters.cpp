// What is refused of an EC2 request before its operation looks at it.
#include "tests/world/ec2_parameters.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <sstream>

#include "tests/world/ec2_members.hpp"
#include "tests/world/ec2_names.hpp"

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
    {"DescribeVolumesModifications", {0, 500}},
};

// "You cannot specify this parameter and the ... IDs parameter in the same request."
const std::map<std::string, const char*> ids_instead = {{"DescribeInstances", "InstanceId"},
                                                        {"DescribeInstanceStatus", "InstanceId"},
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
std::optional<ApiError> check_tagged(const std::string& action, const Query& query) {
  for (const Taggable& it : taggable) {
    if (action != it.operation) continue;
    std::string types = it.types;
    std::set<std::string> seen;
    if (action == "CreateFleet" && query.text("Type") == "instant") types += " instance volume";
    for (const std::string& member : query.members(it.parameter)) {
      const std::string type = query.text(member + "ResourceType");
      if (type == "network-interface" || type == "elastic-gpu")
        return ApiError{"UnsupportedOperation",
                        not_honoured(without_numbers(member + "ResourceType"), type)};
      if (!type.empty() && !is_one_of(types, type))
        return ApiError{"InvalidParameterValue",
                        "'" + type + "' is not a valid taggable resource type for this operation."};
      if (type.empty() || !seen.insert(type).second)
        return ApiError{"InvalidParameterValue",
                        "Each tag specification has a resource type of its own: '" + type + "'."};
    }
  }
  return std::nullopt;
}

// In characters of UTF-8.
std::size_t length_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_reserved(std::string_view key) {
  return key.size() >= 4 && std::tolower(key[0]) == 'a' && std::tolower(key[1]) == 'w' &&
         std::tolower(key[2]) == 's' && key[3] == ':';
}

// Refuses tags that EC2 cannot make, in whatever list they come:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions
std::optional<ApiError> check_tags(const std::string& action, const Query& query) {
  if (action == "DeleteTags") return std::nullopt;
  const auto wrong = [](const std::string& why) { return ApiError{"InvalidParameterValue", why}; };
  std::map<std::string, std::set<std::string>> keys;  // by the list
  for (const auto& [name, text] : query.all()) {
    const std::string path = "." + without_numbers(name);
    if (path.ends_with(".Tag.Value") && length_of(text) > 256)
      return wrong("Tag value exceeds the maximum length of 256 characters");
    if (!path.ends_with(".Tag.Key")) continue;
    if (length_of(text) > 128) return wrong("Tag key exceeds the maximum length of 128 characters");
    if (is_reserved(text))
      return wrong("Tag keys starting with 'aws:' are reserved for internal use");
    std::set<std::string>& others = keys[name.substr(0, name.rfind("Tag."))];
    if (!others.insert(text).second) return wrong("Duplicate tag key '" + text + "' specified.");
    if (others.size() > 50)
      return ApiError{"TagLimitExceeded", "The maximum number of tags for a resource is 50."};
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
    {"ImageId", "ami-", "InvalidAMIID.Malformed"},
    {"SecurityGroupId", "sg-", "InvalidGroupId.Malformed"},
    {"SubnetId", "subnet-", "InvalidSubnetID.NotFound"},
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

// Ids of several fleets are refused one by one; AWS says "InvalidParameterValue" where storage is
// named by an id of another thing.
std::optional<ApiError> check_ids(const std::string& action, const Query& query) {
  if (action == "DeleteFleets" || action == "CancelSpotFleetRequests" ||
      action == "DescribePlacementGroups")
    return std::nullopt;
  for (const auto& [name, value] : query.all()) {
    const std::string path = without_numbers(name);
    const std::string member = path.substr(path.rfind('.') + 1);
    const auto form = std::ranges::find(id_forms, member, &IdForm::path);
    if (form == std::end(id_forms) || value.empty() || is_resource_id(value, form->prefix) ||
        path.starts_with("LaunchTemplateData.") || path.ends_with("Placement.GroupId"))
      continue;
    const bool of_storage = form->prefix == "vol-" || form->prefix == "snap-";
    if (of_storage && path == member && !value.starts_with(form->prefix))
      return ApiError{"InvalidParameterValue", "Value (" + value + ") for parameter " + path +
                                                   " is invalid. Expected: '" +
                                                   std::string(form->prefix) + "...'."};
    return ApiError{form->malformed, "Invalid id: \"" + value + "\" (expecting \"" +
                                         std::string(form->prefix) + "...\")"};
  }
  return std::nullopt;
}

constexpr std::string_view digits = "0123456789";
constexpr std::string_view template_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789().-/_";
constexpr std::string_view group_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._-:/()#,@[]+=&;{}!$*";

// How long a text may be, and of which letters (empty: of any), in operations that begin so.
struct TextForm {
  std::string_view operation, path;
  std::size_t least, most;
  std::string_view letters;
  const char* code = "InvalidParameterValue";
};
constexpr TextForm text_forms[] = {
    {"CreateLaunchTemplate", "ClientToken", 0, 128, ""},
    {"", "ClientToken", 0, 64, ""},
    {"", "SpotFleetRequestConfig.ClientToken", 0, 64, ""},
    {"CreateLaunchTemplate", "LaunchTemplateName", 3, 128, template_letters,
     "InvalidLaunchTemplateName.MalformedException"},
    {"CreateLaunchTemplate", "VersionDescription", 0, 255, ""},
    {"C", "Description", 0, 255, ""},
    {"CreateSecurityGroup", "GroupName", 1, 255, group_letters},
    {"CreateSecurityGroup", "GroupDescription", 1, 255, group_letters},
};

struct Choice {
  std::string_view path;  // its end
  std::string_view words;
};
constexpr Choice choices[] = {{"MetadataOptions.HttpEndpoint", "disabled enabled"},
                              {"MetadataOptions.HttpProtocolIpv6", "disabled enabled"},
                              {"MetadataOptions.HttpTokens", "optional required"},
                              {"MetadataOptions.InstanceMetadataTags", "disabled enabled"}};

// One excludes the other, at the same place.
constexpr std::pair<std::string_view, std::string_view> alternatives[] = {
    {"LaunchTemplateId", "LaunchTemplateName"},
    {"IamInstanceProfile.Arn", "IamInstanceProfile.Name"},
    {"SecurityGroupId.1", "SecurityGroup.1"}};

std::optional<ApiError> check_value(const std::string& action, const std::string& path,
                                    const std::string& value) {
  const auto invalid = [&] {
    return ApiError{"InvalidParameterValue",
                    "Value (" + value + ") for parameter " + path + " is invalid."};
  };
  for (const TextForm& it : text_forms) {
    if (path != it.path || !action.starts_with(it.operation)) continue;
    const bool odd = !it.letters.empty() && value.find_first_not_of(it.letters) != value.npos;
    if (odd || length_of(value) < it.least || length_of(value) > it.most)
      return ApiError{it.code, invalid().message};
    break;
  }
  for (const Choice& it : choices)
    if (path.ends_with(it.path) && !is_one_of(it.words, value)) return invalid();
  const bool of_any = action == "DescribeInstanceTypes" || path.starts_with("LaunchTemplateData.");
  if (("." + path).ends_with(".InstanceType") && !of_any && !is_type_name(value)) return invalid();
  const bool account = value.size() == 12 && value.find_first_not_of(digits) == value.npos;
  if ((path == "Owner" || path == "RestorableBy") && !account &&
      !is_one_of("self amazon aws-marketplace all", value))
    return ApiError{"InvalidUserID.Malformed", "Invalid user id: \"" + value + "\""};
  return std::nullopt;
}

std::optional<ApiError> check_values(const std::string& action, const Query& query) {
  for (const auto& [name, value] : query.all()) {
    if (auto wrong = check_value(action, without_numbers(name), value)) return wrong;
    for (const auto& [one, other] : alternatives) {
      if (!("." + name).ends_with("." + std::string(one))) continue;
      if (query.has(name.substr(0, name.size() - one.size()) + std::string(other)))
        return ApiError{"InvalidParameterCombination", "The parameters " + std::string(one) +
                                                           " and " + std::string(other) +
                                                           " cannot be used together"};
    }
  }
  return std::nullopt;
}

std::optional<ApiError> check_filter_names(const std::string& action, const Query& query) {
  std::size_t values = 0;
  for (const auto& [name, value] : query.all()) {
    const std::string path = without_numbers(name);
    values += path == "Filter.Value" ? 1 : 0;
    if (path == "Filter.Name" && is_filter_refused(action, value))
      return ApiError{"UnsupportedOperation", not_honoured("Filter.Name", value)};
  }
  if (values <= 200) return std::nullopt;
  return ApiError{"FilterLimitExceeded",
                  "The maximum number of filter values specified on a single call is 200"};
}

}  // namespace

// The digits after the prefix are 8 or 17; fleets have a UUID.
bool is_resource_id(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const bool uuid = prefix == "fleet-" || prefix == "sfr-";
  const auto odd = text.find_first_not_of(prefix == "sir-" ? "0123456789abcdefghijklmnopqrstuvwxyz"
                                          : uuid           ? "0123456789abcdef-"
                                                           : "0123456789abcdef");
  return odd == text.npos && (uuid ? text.size() == 36 : text.size() == 8 || text.size() == 17);
}

// A family, a dot, and a size that AWS has: 12xlarge, metal-24xl.
bool is_type_name(std::string_view text) {
  const auto dot = text.find('.');
  if (dot == text.npos || dot < 2 || !InstanceType::fits(std::string(text))) return false;
  const auto family = text.substr(0, dot);
  std::string_view size = text.substr(dot + 1);
  const auto begins = std::isalpha(static_cast<unsigned char>(family[0])) != 0;
  const auto odd = std::ranges::find_if(family, [](unsigned char c) {
    return std::isdigit(c) == 0 && std::islower(c) == 0 && c != '-';
  });
  if (!begins || odd != family.end()) return false;
  if (is_one_of("nano micro small medium large xlarge metal", size)) return true;
  const bool metal = size.starts_with("metal-");
  if (metal) size.remove_prefix(6);
  const auto number = size.find_first_not_of(digits);
  return number != 0 && number != size.npos && number < 4 &&
         size.substr(number) == (metal ? "xl" : "xlarge");
}

std::optional<ApiError> check_parameters(const std::string& action, const Query& query) {
  if (auto wrong = check_version(query)) return wrong;
  for (const auto check : {check_names, check_values, check_ids, check_page, check_filter_names,
                           check_tagged, check_tags})
    if (auto wrong = check(action, query)) return wrong;
  return std::nullopt;
}

}  // namespace spotter::world
