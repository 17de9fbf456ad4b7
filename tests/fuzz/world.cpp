// The fake AWS as its callers reach it: each line of the input is one form, an EC2 call
// (Action=...), a metadata request (path=...) or a fault (fault=...), a second after the one
// before.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <string>

#include "agent/aws/formats/ec2_query.hpp"
#include "tests/emulator/form.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/world/world.hpp"

namespace spotter::fuzz {
namespace {

using Fields = std::map<std::string, std::string>;

constexpr std::size_t most_lines = 12;  // each may copy the world

// Our own client understands what the fake AWS says.
void understood(const std::string& action, const std::string& body) {
  const auto decodes = [&]<class Request>(const char* name, Request) {
    must(action != name || wire::decode<Request>(body).has_value(), "our client reads the answer");
  };
  decodes("DescribeVolumes", wire::DescribeVolumes{});
  decodes("CreateVolume", wire::CreateVolume{});
  decodes("AttachVolume", wire::AttachVolume{});
  decodes("DetachVolume", wire::DetachVolume{});
  decodes("CreateSnapshot", wire::CreateSnapshot{});
  decodes("DescribeSnapshots", wire::DescribeSnapshots{});
  decodes("DescribeInstances", wire::DescribeInstances{});
  decodes("DescribeSpotFleetRequests", wire::DescribeSpotFleetRequests{});
  decodes("DescribeFleets", wire::DescribeFleets{});
  decodes("DescribeSpotPriceHistory", wire::DescribeSpotPriceHistory{});
}

void call(world::World& world, const std::string& action, const Fields& fields, Time now) {
  const auto reply = world.ec2({.action = action, .parameters = fields}, now);
  pugi::xml_document document;
  must(document.load_buffer(reply.body.data(), reply.body.size()), "an answer is XML");
  must(reply.status != 200 || document.document_element().name() == action + "Response",
       "and that of the action");
  if (reply.status == 200) understood(action, reply.body);
}

void request(world::World& world, const InstanceId& instance, const Fields& fields, Time now) {
  world::MetadataRequest put{"PUT", "/latest/api/token", {}};
  put.headers["x-aws-ec2-metadata-token-ttl-seconds"] =
      fields.contains("ttl") ? fields.at("ttl") : "60";
  const auto token = world.metadata(instance, put, now);
  world::MetadataRequest get{"GET", fields.at("path"), {}};
  get.headers["x-aws-ec2-metadata-token"] = token.body;
  world.metadata(instance, get, now);
}

}  // namespace

void examine(std::string_view bytes) {
  world::World world({}, 1);
  Time now{};
  const auto instance = world.add_instance("us-west-2a", "p3.2xlarge", now);
  for (std::size_t line = 0; line < most_lines && !bytes.empty(); ++line) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    Fields fields;
    for (auto& [name, value] :
         emulator::parse_form(bytes.substr(0, end), emulator::Plus::IsSpace)) {
      fields[name] = value;
    }
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (fields.contains("Action")) call(world, fields["Action"], fields, now);
    if (fields.contains("path")) request(world, *instance, fields, now);
    if (fields.contains("fault")) std::ignore = world.fault(fields["fault"], fields, now);
    now += Duration{1000};
    world.advance(now);
  }
  must(nlohmann::json::accept(world.state_json(now)), "the state is JSON");
}

}  // namespace spotter::fuzz
