#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/partition.hpp"

namespace spotter::wire {
namespace {

const char* version_of(std::string_view service) {
  if (service == "autoscaling") return "2011-01-01";
  if (service == "sts") return "2011-06-15";
  if (service == "sns") return "2010-03-31";
  return service == "iam" ? "2010-05-08" : "2016-11-15";
}

bool reads(std::string_view action) {
  return action.starts_with("Describe") || action.starts_with("Get");
}

// Builds the parameters; an empty value is left out, as "not given".
class Builder {
 public:
  explicit Builder(const Api& api)
      : query_{.service = api.service,
               .action = api.action,
               .repeatable = reads(api.action) ? Repeatable::Read : Repeatable::No,
               .parameters = {}} {}

  Builder& put(const std::string& name, std::string_view value) {
    if (!value.empty()) query_.parameters[name] = std::string(value);
    return *this;
  }
  template <class Identifier>
  requires requires(const Identifier& id) { id.view(); }
  Builder& put(const std::string& name, const Identifier& id) { return put(name, id.view()); }
  Builder& number(const std::string& name, std::uint64_t value) {
    return put(name, std::to_string(value));
  }
  Builder& number(const std::string& name, const std::optional<std::uint64_t>& value) {
    return value ? number(name, *value) : *this;
  }
  Builder& flag(const std::string& name, bool value) { return put(name, value ? "true" : "false"); }

  template <class List>
  Builder& list(const std::string& name, const List& values) {
    int index = 0;
    for (const auto& value : values) put(name + "." + std::to_string(++index), value);
    return *this;
  }
  Builder& filters(const std::vector<Filter>& filters) {
    int index = 0;
    for (const Filter& filter : filters) {
      const std::string prefix = "Filter." + std::to_string(++index);
      put(prefix + ".Name", filter.name).list(prefix + ".Value", filter.values);
    }
    return *this;
  }
  // A tag's value may be empty, and is then sent as such.
  Builder& tags(const std::string& name, const Tags& tags) {
    int index = 0;
    for (const auto& [key, value] : tags) {
      const std::string prefix = name + "." + std::to_string(++index);
      query_.parameters[prefix + ".Key"] = key;
      query_.parameters[prefix + ".Value"] = value;
    }
    return *this;
  }
  Builder& tag_specification(const char* resource_type, const Tags& values) {
    if (values.empty()) return *this;
    put("TagSpecification.1.ResourceType", resource_type);
    return tags("TagSpecification.1.Tag", values);
  }

  void repeatable(Repeatable it) { query_.repeatable = it; }
  void region(const Region& it) { query_.region = it; }
  Query done() { return std::move(query_); }

 private:
  Query query_;
};

std::uint64_t capacity(int value) { return value < 0 ? 0 : static_cast<std::uint64_t>(value); }

bool unreserved(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '.' || letter == '_' ||
         letter == '~';
}

// --- the parameters of each request; encode() adds a page's token

void add(Builder& it, const DescribeVolumes& request) {
  it.list("VolumeId", request.volumes).filters(request.filters);
}
void add(Builder& it, const CreateVolume& request) {
  if (!request.client_token.empty()) it.repeatable(Repeatable::Token);
  it.put("AvailabilityZone", request.zone)
      .put("SnapshotId", request.from)
      .put("VolumeType", request.type)
      .number("Iops", request.iops)
      .number("Throughput", request.throughput)
      .number("VolumeInitializationRate", request.initialization_rate)
      .put("KmsKeyId", request.kms_key)
      .put("ClientToken", request.client_token)
      .tag_specification("volume", request.tags);
  if (request.size_gib != 0) it.number("Size", request.size_gib);
  if (request.encrypted) it.flag("Encrypted", *request.encrypted);
}
void add(Builder& it, const AttachVolume& request) {
  it.put("VolumeId", request.volume)
      .put("InstanceId", request.instance)
      .put("Device", request.device);
}
void add(Builder& it, const DetachVolume& request) {
  it.put("VolumeId", request.volume).put("InstanceId", request.instance);
}
void add(Builder& it, const DeleteVolume& request) { it.put("VolumeId", request.volume); }
void add(Builder& it, const CreateSnapshot& request) {
  it.put("VolumeId", request.volume)
      .put("Description", request.description)
      .tag_specification("snapshot", request.tags);
}
void add(Builder& it, const DescribeSnapshots& request) {
  it.put("Owner.1", "self").list("SnapshotId", request.snapshots).filters(request.filters);
}
void add(Builder& it, const DeleteSnapshot& request) { it.put("SnapshotId", request.snapshot); }
void add(Builder& it, const CreateTags& request) {
  it.list("ResourceId", request.resources).tags("Tag", request.tags);
}
void add(Builder& it, const DescribeInstances& request) {
  it.list("InstanceId", request.instances).filters(request.filters);
}
void add(Builder& it, const DescribeCapacityReservations& request) {
  it.list("CapacityReservationId", request.reservations);
}
void add(Builder& it, const TerminateInstances& request) {
  it.list("InstanceId", request.instances);
}
void add(Builder& it, const CancelSpotFleetRequests& request) {
  it.list("SpotFleetRequestId", request.fleets)
      .flag("TerminateInstances", request.terminate_instances);
}
void add(Builder& it, const ModifySpotFleetRequest& request) {
  it.put("SpotFleetRequestId", request.fleet)
      .number("TargetCapacity", capacity(request.target_capacity))
      .number("OnDemandTargetCapacity", capacity(request.on_demand))
      .put("ExcessCapacityTerminationPolicy",
           request.terminate_excess ? "default" : "noTermination");
}
void add(Builder& it, const DeleteFleets& request) {
  it.list("FleetId", request.fleets).flag("TerminateInstances", request.terminate_instances);
}
void add(Builder& it, const ModifyFleet& request) {
  it.put("FleetId", request.fleet)
      .number("TargetCapacitySpecification.TotalTargetCapacity", capacity(request.target_capacity))
      .number("TargetCapacitySpecification.OnDemandTargetCapacity", capacity(request.on_demand))
      .put("ExcessCapacityTerminationPolicy",
           request.terminate_excess ? "termination" : "no-termination");
}
void add(Builder& it, const DescribeSpotFleetRequests& request) {
  it.list("SpotFleetRequestId", request.fleets);
}
void add(Builder& it, const DescribeFleets& request) { it.list("FleetId", request.fleets); }
void add(Builder& it, const DescribeSpotPriceHistory& request) {
  it.list("InstanceType", request.types)
      .put("AvailabilityZone", request.zone)
      .put("ProductDescription.1", "Linux/UNIX");
  if (request.start) it.put("StartTime", to_rfc3339(*request.start));
}
void add(Builder& it, const DescribeAutoScalingGroups& request) {
  it.list("AutoScalingGroupNames.member", request.groups);
}
void add(Builder& it, const SetDesiredCapacity& request) {
  it.put("AutoScalingGroupName", request.group)
      .number("DesiredCapacity", capacity(request.desired_capacity))
      .flag("HonorCooldown", false);
}
void add(Builder& it, const TerminateInGroup& request) {
  it.put("InstanceId", request.instance).flag("ShouldDecrementDesiredCapacity", true);
}
void add(Builder& it, const CompleteLifecycleAction& request) {
  it.put("AutoScalingGroupName", request.group)
      .put("LifecycleHookName", checkpoint_hook)
      .put("InstanceId", request.instance)
      .put("LifecycleActionResult", "CONTINUE");
}

void add(Builder&, const GetCallerIdentity&) {}
void add(Builder& it, const GetInstanceProfile& request) {
  it.put("InstanceProfileName", request.name);
  it.region(Region(partition_of(request.region.view()).iam_region));
}
void add(Builder& it, const SimulatePrincipalPolicy& request) {
  it.put("PolicySourceArn", request.role)
      .list("ActionNames.member", request.actions)
      .list("ResourceArns.member", request.resources);
  int index = 0;
  for (const auto& entry : request.context) {
    const std::string prefix = "ContextEntries.member." + std::to_string(++index);
    it.put(prefix + ".ContextKeyName", entry.key)
        .put(prefix + ".ContextKeyType", entry.type)
        .list(prefix + ".ContextKeyValues.member", entry.values);
  }
  it.repeatable(Repeatable::Read);
  it.region(Region(partition_of(request.region.view()).iam_region));
}
void add(Builder&, const DescribeAvailabilityZones&) {}
void add(Builder& it, const DescribeSubnets& request) {
  it.list("SubnetId", request.subnets).filters(request.filters);
}
void add(Builder& it, const DescribeInstanceTypeOfferings& request) {
  it.put("LocationType", "availability-zone").filters({{"instance-type", request.types}});
}
void add(Builder& it, const DescribeInstanceTypes& request) {
  it.list("InstanceType", request.types);
  if (!request.like.empty()) it.filters({{"instance-type", request.like}});
}
void add(Builder& it, const DescribeImages& request) {
  it.list("ImageId", request.images).flag("IncludeDeprecated", true).flag("IncludeDisabled", true);
}
void add(Builder& it, const GetSpotPlacementScores& request) {
  it.list("InstanceType", request.types)
      .number("TargetCapacity", request.capacity)
      .flag("SingleAvailabilityZone", true)
      .put("RegionName.1", request.region);
}
void add(Builder& it, const DescribeLaunchTemplates& request) {
  it.filters({{"launch-template-name", {request.name}}});
}
void add(Builder& it, const DescribePlacementGroups& request) {
  it.filters({{"group-name", {request.name}}});
}
void add(Builder& it, const DescribeSecurityGroups& request) {
  it.list("GroupId", request.groups).filters(request.filters);
}
template <class Request>
requires requires(const Request& request) { request.vpcs; }
void add(Builder& it, const Request& request) { it.filters({{"vpc-id", request.vpcs}}); }

template <class... Request>
constexpr auto encoders_of(const std::tuple<Request...>*) {
  return std::tuple{static_cast<Query (*)(const Request&)>(encode)...};
}
// Makes the compiler write encode() for each request.
[[gnu::used]] constexpr auto encoders_of_ec2 = encoders_of(static_cast<Ec2Requests*>(nullptr));
[[gnu::used]] constexpr auto encoders_of_places = encoders_of(static_cast<PlaceRequests*>(nullptr));

}  // namespace

std::string exactly(std::string_view text) {
  std::string pattern;
  for (const char each : text) {
    if (each == '*' || each == '?' || each == '\\') pattern += '\\';
    pattern += each;
  }
  return pattern;
}

Filter tagged(std::string_view key, std::string_view value) {
  return {"tag:" + std::string(key), {exactly(value)}};
}

std::string escape(std::string_view text) {
  static constexpr char hexadecimal[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char letter : text) {
    if (unreserved(letter)) {
      out += letter;
      continue;
    }
    const auto byte = static_cast<unsigned char>(letter);
    out += '%';
    out += hexadecimal[byte >> 4];
    out += hexadecimal[byte & 15];
  }
  return out;
}

std::string form_body(const Query& query) {
  auto parameters = query.parameters;
  parameters["Action"] = query.action;
  parameters["Version"] = version_of(query.service);
  std::string body;
  for (const auto& [name, value] : parameters) {
    if (!body.empty()) body += '&';
    body += escape(name) + '=' + escape(value);
  }
  return body;
}

Query dry_run(Query query) {
  query.parameters["DryRun"] = "true";
  query.repeatable = Repeatable::Read;
  return query;
}

template <class Request>
requires requires { Request::api; }
Query encode(const Request& request) {
  Builder builder(Request::api);
  add(builder, request);
  if constexpr (requires { request.next_token; }) builder.put("NextToken", request.next_token);
  return builder.done();
}

}  // namespace spotter::wire
