#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {
namespace {

// Builds the parameters; an empty value is left out, as "not given".
class Builder {
 public:
  Builder(const char* action, Repeatable repeatable)
      : query_{.service = "ec2",
               .action = action,
               .version = "2016-11-15",
               .repeatable = repeatable,
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

  Query done() { return std::move(query_); }

 private:
  Query query_;
};

Query auto_scaling(Builder builder) {
  Query query = builder.done();
  query.service = "autoscaling";
  query.version = "2011-01-01";
  return query;
}

std::uint64_t capacity(int value) { return value < 0 ? 0 : static_cast<std::uint64_t>(value); }

bool unreserved(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '.' || letter == '_' ||
         letter == '~';
}

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
  parameters["Version"] = query.version;
  std::string body;
  for (const auto& [name, value] : parameters) {
    if (!body.empty()) body += '&';
    body += escape(name) + '=' + escape(value);
  }
  return body;
}

Query encode(const DescribeVolumes& request) {
  return Builder("DescribeVolumes", Repeatable::Read)
      .list("VolumeId", request.volumes)
      .filters(request.filters)
      .put("NextToken", request.next_token)
      .done();
}

Query encode(const CreateVolume& request) {
  Builder builder("CreateVolume",
                  request.client_token.empty() ? Repeatable::No : Repeatable::Token);
  builder.put("AvailabilityZone", request.zone)
      .put("SnapshotId", request.from)
      .put("VolumeType", request.type)
      .number("Iops", request.iops)
      .number("Throughput", request.throughput)
      .number("VolumeInitializationRate", request.initialization_rate)
      .put("KmsKeyId", request.kms_key)
      .put("ClientToken", request.client_token)
      .tag_specification("volume", request.tags);
  if (request.size_gib != 0) builder.number("Size", request.size_gib);
  if (request.encrypted) builder.flag("Encrypted", *request.encrypted);
  return builder.done();
}

Query encode(const AttachVolume& request) {
  return Builder("AttachVolume", Repeatable::No)
      .put("VolumeId", request.volume)
      .put("InstanceId", request.instance)
      .put("Device", request.device)
      .done();
}

Query encode(const DetachVolume& request) {
  return Builder("DetachVolume", Repeatable::No)
      .put("VolumeId", request.volume)
      .put("InstanceId", request.instance)
      .done();
}

Query encode(const DeleteVolume& request) {
  return Builder("DeleteVolume", Repeatable::No).put("VolumeId", request.volume).done();
}

Query encode(const CreateSnapshot& request) {
  return Builder("CreateSnapshot", Repeatable::No)
      .put("VolumeId", request.volume)
      .put("Description", request.description)
      .tag_specification("snapshot", request.tags)
      .done();
}

Query encode(const DescribeSnapshots& request) {
  return Builder("DescribeSnapshots", Repeatable::Read)
      .put("Owner.1", "self")
      .list("SnapshotId", request.snapshots)
      .filters(request.filters)
      .put("NextToken", request.next_token)
      .done();
}

Query encode(const DeleteSnapshot& request) {
  return Builder("DeleteSnapshot", Repeatable::No).put("SnapshotId", request.snapshot).done();
}

Query encode(const CreateTags& request) {
  return Builder("CreateTags", Repeatable::No)
      .list("ResourceId", request.resources)
      .tags("Tag", request.tags)
      .done();
}

Query encode(const DeleteTags& request) {
  Builder builder("DeleteTags", Repeatable::No);
  builder.list("ResourceId", request.resources);
  int index = 0;
  for (const std::string& key : request.keys) {
    builder.put("Tag." + std::to_string(++index) + ".Key", key);
  }
  return builder.done();
}

Query encode(const DescribeInstances& request) {
  return Builder("DescribeInstances", Repeatable::Read)
      .list("InstanceId", request.instances)
      .filters(request.filters)
      .put("NextToken", request.next_token)
      .done();
}

Query encode(const DescribeTags& request) {
  return Builder("DescribeTags", Repeatable::Read)
      .filters(request.filters)
      .put("NextToken", request.next_token)
      .done();
}

Query encode(const TerminateInstances& request) {
  return Builder("TerminateInstances", Repeatable::No).list("InstanceId", request.instances).done();
}

Query encode(const CancelSpotFleetRequests& request) {
  return Builder("CancelSpotFleetRequests", Repeatable::No)
      .list("SpotFleetRequestId", request.fleets)
      .flag("TerminateInstances", request.terminate_instances)
      .done();
}

Query encode(const ModifySpotFleetRequest& request) {
  return Builder("ModifySpotFleetRequest", Repeatable::No)
      .put("SpotFleetRequestId", request.fleet)
      .number("TargetCapacity", capacity(request.target_capacity))
      .number("OnDemandTargetCapacity", capacity(request.on_demand))
      .put("ExcessCapacityTerminationPolicy",
           request.terminate_excess ? "default" : "noTermination")
      .done();
}

Query encode(const DeleteFleets& request) {
  return Builder("DeleteFleets", Repeatable::No)
      .list("FleetId", request.fleets)
      .flag("TerminateInstances", request.terminate_instances)
      .done();
}

Query encode(const ModifyFleet& request) {
  return Builder("ModifyFleet", Repeatable::No)
      .put("FleetId", request.fleet)
      .number("TargetCapacitySpecification.TotalTargetCapacity", capacity(request.target_capacity))
      .number("TargetCapacitySpecification.OnDemandTargetCapacity", capacity(request.on_demand))
      .put("ExcessCapacityTerminationPolicy",
           request.terminate_excess ? "termination" : "no-termination")
      .done();
}

Query encode(const DescribeSpotFleetRequests& request) {
  return Builder("DescribeSpotFleetRequests", Repeatable::Read)
      .list("SpotFleetRequestId", request.fleets)
      .put("NextToken", request.next_token)
      .done();
}

Query encode(const DescribeFleets& request) {
  return Builder("DescribeFleets", Repeatable::Read)
      .list("FleetId", request.fleets)
      .put("NextToken", request.next_token)
      .done();
}

Query encode(const DescribeSpotPriceHistory& request) {
  Builder builder("DescribeSpotPriceHistory", Repeatable::Read);
  builder.list("InstanceType", request.types)
      .put("AvailabilityZone", request.zone)
      .list("ProductDescription", request.products)
      .put("NextToken", request.next_token);
  if (request.start) builder.put("StartTime", to_rfc3339(*request.start));
  return builder.done();
}

Query encode(const DescribeAutoScalingGroups& request) {
  Builder builder("DescribeAutoScalingGroups", Repeatable::Read);
  builder.list("AutoScalingGroupNames.member", request.groups).put("NextToken", request.next_token);
  return auto_scaling(std::move(builder));
}

Query encode(const SetDesiredCapacity& request) {
  Builder builder("SetDesiredCapacity", Repeatable::No);
  builder.put("AutoScalingGroupName", request.group)
      .number("DesiredCapacity", capacity(request.desired_capacity))
      .flag("HonorCooldown", false);
  return auto_scaling(std::move(builder));
}

Query encode(const TerminateInGroup& request) {
  Builder builder("TerminateInstanceInAutoScalingGroup", Repeatable::No);
  builder.put("InstanceId", request.instance).flag("ShouldDecrementDesiredCapacity", true);
  return auto_scaling(std::move(builder));
}

Query encode(const CompleteLifecycleAction& request) {
  Builder builder("CompleteLifecycleAction", Repeatable::No);
  builder.put("AutoScalingGroupName", request.group)
      .put("LifecycleHookName", request.hook)
      .put("InstanceId", request.instance)
      .put("LifecycleActionResult", request.outcome);
  return auto_scaling(std::move(builder));
}

}  // namespace spotter::wire
