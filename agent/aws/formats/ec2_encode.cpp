#include <algorithm>
#include <boost/pfr/core.hpp>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/partition.hpp"
#include "agent/base/text.hpp"

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

  template <class Value>
  Builder& put(const std::string& name, const Value& value) {
    if constexpr (std::convertible_to<Value, std::string_view>) {
      if (std::string_view text = value; !text.empty()) query_.parameters[name] = text;
    } else if constexpr (requires { value.view(); }) {
      put(name, value.view());
    } else if constexpr (std::same_as<Value, bool>) {
      put(name, value ? "true" : "false");
    } else if constexpr (std::integral<Value>) {
      put(name, std::to_string(std::max(value, Value{0})));  // an int is a capacity
    } else if constexpr (std::same_as<Value, WallTime>) {
      put(name, to_rfc3339(value));
    } else if constexpr (requires { value.has_value(); }) {
      if (value) put(name, *value);
    } else if constexpr (std::same_as<Value, Filter>) {
      put(name + ".Name", value.name).put(name + ".Value", value.values);
    } else if constexpr (std::same_as<Value, Tags::value_type>) {  // its value may be empty
      query_.parameters[name + ".Key"] = value.first;
      query_.parameters[name + ".Value"] = value.second;
    } else {
      int index = 0;
      for (const auto& each : value) put(name + "." + std::to_string(++index), each);
    }
    return *this;
  }
  Builder& tag_specification(const char* resource_type, const Tags& values) {
    if (values.empty()) return *this;
    put("TagSpecification.1.ResourceType", resource_type);
    return put("TagSpecification.1.Tag", values);
  }

  void repeatable(Repeatable it) { query_.repeatable = it; }
  void region(const Region& it) { query_.region = it; }
  Query done() { return std::move(query_); }

 private:
  Query query_;
};

bool unreserved(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '.' || letter == '_' ||
         letter == '~';
}

// --- the parameters of each request

template <class Request>
void add(Builder& it, const Request& request) {
  constexpr std::string_view fields = Request::api.fields;
  constexpr auto names = fields.empty() ? 0 : std::ranges::count(fields, ' ') + 1;
  static_assert(std::ranges::count(fields, '=') + boost::pfr::tuple_size_v<Request> == names);
  std::string_view left = fields;
  boost::pfr::for_each_field(
      request, [&](const auto& value) { it.put(std::string(take_until(left, ' ')), value); });
  while (!left.empty()) {
    const std::string name(take_until(left, '='));
    it.put(name, take_until(left, ' '));
  }
}
void add(Builder& it, const CreateVolume& request) {
  if (!request.client_token.empty()) it.repeatable(Repeatable::Token);
  it.put("AvailabilityZone", request.zone)
      .put("SnapshotId", request.from)
      .put("VolumeType", request.type)
      .put("Iops", request.iops)
      .put("Throughput", request.throughput)
      .put("VolumeInitializationRate", request.initialization_rate)
      .put("Encrypted", request.encrypted)
      .put("KmsKeyId", request.kms_key)
      .put("ClientToken", request.client_token)
      .tag_specification("volume", request.tags);
  if (request.size_gib != 0) it.put("Size", request.size_gib);
}
void add(Builder& it, const CreateSnapshot& request) {
  it.put("VolumeId", request.volume)
      .put("Description", request.description)
      .tag_specification("snapshot", request.tags);
}
void add(Builder& it, const ModifySpotFleetRequest& request) {
  it.put("SpotFleetRequestId", request.fleet)
      .put("TargetCapacity", request.target_capacity)
      .put("OnDemandTargetCapacity", request.on_demand)
      .put("ExcessCapacityTerminationPolicy",
           request.terminate_excess ? "default" : "noTermination");
}
void add(Builder& it, const ModifyFleet& request) {
  it.put("FleetId", request.fleet)
      .put("TargetCapacitySpecification.TotalTargetCapacity", request.target_capacity)
      .put("TargetCapacitySpecification.OnDemandTargetCapacity", request.on_demand)
      .put("ExcessCapacityTerminationPolicy",
           request.terminate_excess ? "termination" : "no-termination");
}
void add(Builder& it, const CompleteLifecycleAction& request) {
  it.put("AutoScalingGroupName", request.group)
      .put("LifecycleHookName", checkpoint_hook)
      .put("InstanceId", request.instance)
      .put("LifecycleActionResult", "CONTINUE");
}
void add(Builder& it, const GetInstanceProfile& request) {
  it.put("InstanceProfileName", request.name);
  it.region(Region(partition_of(request.region.view()).iam_region));
}
void add(Builder& it, const SimulatePrincipalPolicy& request) {
  it.put("PolicySourceArn", request.role)
      .put("ActionNames.member", request.actions)
      .put("ResourceArns.member", request.resources);
  int index = 0;
  for (const auto& entry : request.context) {
    const std::string prefix = "ContextEntries.member." + std::to_string(++index);
    it.put(prefix + ".ContextKeyName", entry.key)
        .put(prefix + ".ContextKeyType", entry.type)
        .put(prefix + ".ContextKeyValues.member", entry.values);
  }
  it.repeatable(Repeatable::Read);
  it.region(Region(partition_of(request.region.view()).iam_region));
}
void add(Builder& it, const DescribeInstanceTypes& request) {
  it.put("InstanceType", request.types).put("NextToken", request.next_token);
  if (!request.like.empty()) it.put("Filter.1", Filter{"instance-type", request.like});
}

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
  return builder.done();
}

}  // namespace spotter::wire
