#include "tests/world/efs.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "tests/world/access.hpp"
#include "tests/world/ec2_access.hpp"
#include "tests/world/ec2_api.hpp"
#include "tests/world/service_members.hpp"

namespace spotter::world {
namespace {

using EfsJson = nlohmann::json;

// AWS's usual durations.
constexpr Duration until_file_system{5'000};
constexpr Duration until_mount_target{60'000};

tl::unexpected<ApiError> efs_refusal(int status, std::string code, std::string message) {
  return tl::unexpected(ApiError{std::move(code), std::move(message), status});
}

tl::unexpected<ApiError> no_file_system(const std::string& id) {
  return efs_refusal(404, "FileSystemNotFound", "File system '" + id + "' does not exist.");
}

Reply efs_reply(int status, const EfsJson& body) {
  return {.status = status,
          .body = body.dump(-1, ' ', false, EfsJson::error_handler_t::replace),
          .content_type = "application/json"};
}

std::string field(const EfsJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string asked_for(const EfsRequest& request, const char* name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

// An id, or the ARN that ends in it.
std::string id_in(const std::string& text) { return text.substr(text.rfind('/') + 1); }

std::optional<std::size_t> number(const std::string& text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The answer of a listing. A marker is the place of the next one: clients take it for opaque.
template <class Show, class Row>
Expected<EfsJson> listed(const EfsRequest& request, const char* name, const std::vector<Row>& rows,
                         Show show) {
  const std::string marker = asked_for(request, "Marker"), most = asked_for(request, "MaxItems");
  const auto from = marker.empty() ? 0 : number(marker);
  if (!from || *from > rows.size()) return efs_refusal(400, "BadRequest", "Invalid Marker");
  const auto count = most.empty() ? 100 : number(most);
  if (!count || *count == 0) return efs_refusal(400, "BadRequest", "Invalid MaxItems");
  const std::size_t end = std::min(*from + *count, rows.size());
  EfsJson page = {{name, EfsJson::array()}};
  for (std::size_t at = *from; at < end; ++at) page[name].push_back(show(rows[at]));
  if (!marker.empty()) page["Marker"] = marker;
  if (end < rows.size()) page["NextMarker"] = std::to_string(end);
  return page;
}

// The world's faults speak as EC2 does.
ApiError in_words_of_efs(ApiError error) {
  if (error.code == "RequestLimitExceeded") return {"ThrottlingException", "Rate exceeded", 400};
  if (error.code == "InternalError") return {"InternalServerError", error.message, 500};
  if (error.code == "UnauthorizedOperation") return {"AccessDeniedException", error.message, 403};
  return error;
}

std::string action_of(const EfsRequest& request) {
  const std::string begin = "/2015-02-01/";
  if (!request.path.starts_with(begin)) return {};
  const std::string what = request.path.substr(begin.size());
  const bool reads = request.method == "GET";
  if (!reads && request.method != "POST") return {};
  if (what == "file-systems") return reads ? "DescribeFileSystems" : "CreateFileSystem";
  if (what == "mount-targets") return reads ? "DescribeMountTargets" : "CreateMountTarget";
  return {};
}

}  // namespace

Reply Efs::refuse(const ApiError& error) {
  Reply result =
      efs_reply(error.http_status, {{"ErrorCode", error.code}, {"Message", error.message}});
  result.headers["x-amzn-ErrorType"] = error.code;
  return result;
}

Reply Efs::answer(const EfsRequest& request, Time now) {
  now_ = std::max(now_, now);
  const std::string action = action_of(request);
  if (action.empty())
    return refuse({"UnknownOperationException", "There is no " + request.path, 404});
  const Admission admission = world_.admit(action, now);
  Reply result;
  if (admission.error && !admission.carry_out) {
    result = refuse(in_words_of_efs(*admission.error));
  } else {
    const auto answer = carry_out(action, request);
    const int good = action == "CreateFileSystem" ? 201 : 200;
    result = answer ? efs_reply(good, *answer) : refuse(answer.error());
  }
  result.delay = admission.delay;
  result.drop = admission.drop;
  result.headers["Date"] = http_date(world_.wall(now_));
  result.headers["x-amzn-RequestId"] = random_.hex(32);
  return result;
}

Efs::Answer Efs::carry_out(const std::string& action, const EfsRequest& request) {
  if (auto refused = refuse_access(action, request)) return tl::unexpected(*std::move(refused));
  auto why = refuse_members(
      "efs", action, EfsJson::parse(request.body.empty() ? "{}" : request.body, nullptr, false));
  if (!why) why = refuse_members("efs", action, request.query);
  if (why) return efs_refusal(400, "BadRequest", *why);
  if (action == "DescribeFileSystems") return describe_file_systems(request);
  if (action == "DescribeMountTargets") return describe_mount_targets(request);
  const EfsJson asked = EfsJson::parse(request.body, nullptr, false);
  if (!asked.is_object()) return efs_refusal(400, "BadRequest", "The request is no JSON object");
  return action == "CreateFileSystem" ? create_file_system(asked) : create_mount_target(asked);
}

std::string Efs::arn(const std::string& id) const {
  const Settings& settings = world_.settings();
  return "arn:aws:elasticfilesystem:" + settings.region.str() + ":" + settings.account +
         ":file-system/" + (id.empty() ? "*" : id);
}

// On the file system, where the call names one; CreateMountTarget makes a network interface.
// https://docs.aws.amazon.com/service-authorization/latest/reference/
// list_amazonelasticfilesystem.html
std::optional<ApiError> Efs::refuse_access(const std::string& action,
                                           const EfsRequest& request) const {
  const Cloud& cloud = world_.cloud();
  if (!cloud.access || request.caller.empty()) return std::nullopt;
  std::string id = asked_for(request, "FileSystemId");
  if (id.empty()) {
    const EfsJson asked =
        EfsJson::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
    if (asked.is_object()) id = field(asked, "FileSystemId");
  }
  const std::string target = asked_for(request, "MountTargetId");
  for (const MountTarget& it : targets_)
    if (it.id == target) id = it.file_system;
  std::vector<AccessRequest> needs{{"elasticfilesystem:" + action, arn(id_in(id))}};
  if (action == "CreateMountTarget")
    for (const char* more :
         {"DescribeSubnets", "DescribeNetworkInterfaces", "CreateNetworkInterface"})
      needs.push_back({"ec2:" + std::string(more), "*"});
  for (AccessRequest& it : needs) {
    it.know("aws:RequestedRegion", world_.settings().region.str());
    if (!cloud.access->allows(request.caller, it))
      return ApiError{"AccessDeniedException", denial(cloud, request.caller, it), 403};
  }
  return std::nullopt;
}

const Efs::FileSystem* Efs::find(const std::string& id) const {
  const auto found = std::ranges::find(file_systems_, id_in(id), &FileSystem::id);
  return found == file_systems_.end() ? nullptr : &*found;
}

EfsJson Efs::shown(const FileSystem& it) const {
  const bool ready = it.made + until_file_system <= now_;
  EfsJson result = {
      {"OwnerId", world_.settings().account},
      {"CreationToken", it.token},
      {"FileSystemId", it.id},
      {"FileSystemArn", arn(it.id)},
      {"CreationTime", world_.wall(it.made).time_since_epoch().count() / 1000},
      {"LifeCycleState", ready ? "available" : "creating"},
      {"NumberOfMountTargets", std::ranges::count(targets_, it.id, &MountTarget::file_system)},
      {"SizeInBytes", {{"Value", 6144}}},
      {"PerformanceMode", "generalPurpose"},
      {"Encrypted", false},
      {"ThroughputMode", "bursting"},
      {"Tags", EfsJson::array()}};
  if (it.zone.empty()) return result;
  result["AvailabilityZoneName"] = it.zone;
  result["AvailabilityZoneId"] = zone_id(world_.cloud(), Zone(it.zone));
  return result;
}

EfsJson Efs::shown(const MountTarget& it) const {
  const bool ready = it.made + until_mount_target <= now_;
  return {{"OwnerId", world_.settings().account},
          {"MountTargetId", it.id},
          {"FileSystemId", it.file_system},
          {"SubnetId", it.subnet},
          {"LifeCycleState", ready ? "available" : "creating"},
          {"IpAddress", it.address},
          {"NetworkInterfaceId", "eni-" + it.id.substr(5)},
          {"AvailabilityZoneId", zone_id(world_.cloud(), Zone(it.zone))},
          {"AvailabilityZoneName", it.zone},
          {"VpcId", "vpc-00000000000000000"}};
}

// https://docs.aws.amazon.com/efs/latest/ug/API_CreateFileSystem.html
Efs::Answer Efs::create_file_system(const EfsJson& asked) {
  const std::string token = field(asked, "CreationToken");
  constexpr std::size_t longest = 64;
  if (token.empty() || token.size() > longest)
    return efs_refusal(400, "BadRequest", "CreationToken must have 1 to 64 characters");
  for (const FileSystem& it : file_systems_)
    if (it.token == token)
      return efs_refusal(409, "FileSystemAlreadyExists",
                         "File system '" + it.id + "' already exists with this creation token");
  const std::string zone = field(asked, "AvailabilityZoneName");
  if (!zone.empty() && !world_.cloud().has_zone(Zone(zone)))
    return efs_refusal(400, "UnsupportedAvailabilityZone", "There is no zone " + zone);
  file_systems_.push_back({"fs-" + random_.hex(17), token, zone, now_});
  return shown(file_systems_.back());
}

// https://docs.aws.amazon.com/efs/latest/ug/API_CreateMountTarget.html
Efs::Answer Efs::create_mount_target(const EfsJson& asked) {
  const std::string id = field(asked, "FileSystemId"), subnet = field(asked, "SubnetId");
  const FileSystem* const of = find(id);
  if (of == nullptr) return no_file_system(id);
  if (of->made + until_file_system > now_)
    return efs_refusal(409, "IncorrectFileSystemLifeCycleState", of->id + " is not available");
  if (!subnet.starts_with("subnet-"))
    return efs_refusal(400, "SubnetNotFound", "The subnet ID '" + subnet + "' does not exist");
  const std::string zone = zone_of_subnet(world_.cloud(), subnet).str();
  if (!of->zone.empty() && of->zone != zone)
    return efs_refusal(400, "AvailabilityZonesMismatch", of->id + " is of " + of->zone);
  for (const MountTarget& it : targets_)
    if (it.file_system == of->id && it.zone == zone)
      return efs_refusal(409, "MountTargetConflict", "mount target already exists in this AZ");
  const std::string address = "172.31.0." + std::to_string(10 + targets_.size());
  targets_.push_back({"fsmt-" + random_.hex(17), of->id, subnet, zone, address, now_});
  return shown(targets_.back());
}

// https://docs.aws.amazon.com/efs/latest/ug/API_DescribeFileSystems.html
Efs::Answer Efs::describe_file_systems(const EfsRequest& request) const {
  const std::string id = asked_for(request, "FileSystemId");
  const std::string token = asked_for(request, "CreationToken");
  if (!id.empty() && !token.empty())
    return efs_refusal(400, "BadRequest", "Give FileSystemId or CreationToken, not both");
  if (!id.empty() && find(id) == nullptr) return no_file_system(id);
  std::vector<FileSystem> rows = file_systems_;
  std::erase_if(rows, [&](const FileSystem& it) {
    return (!id.empty() && it.id != id_in(id)) || (!token.empty() && it.token != token);
  });
  return listed(request, "FileSystems", rows, [this](const auto& it) { return shown(it); });
}

// https://docs.aws.amazon.com/efs/latest/ug/API_DescribeMountTargets.html
Efs::Answer Efs::describe_mount_targets(const EfsRequest& request) const {
  const std::string id = asked_for(request, "FileSystemId");
  const std::string target = asked_for(request, "MountTargetId");
  if (id.empty() == target.empty())
    return efs_refusal(400, "BadRequest", "Give FileSystemId or MountTargetId, and not both");
  if (!id.empty() && find(id) == nullptr) return no_file_system(id);
  std::vector<MountTarget> rows = targets_;
  std::erase_if(rows, [&](const MountTarget& it) {
    return id.empty() ? it.id != target : it.file_system != id_in(id);
  });
  if (!target.empty() && rows.empty())
    return efs_refusal(404, "MountTargetNotFound", "Mount target '" + target + "' does not exist.");
  return listed(request, "MountTargets", rows, [this](const auto& it) { return shown(it); });
}

}  // namespace spotter::world
