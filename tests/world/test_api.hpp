// Calls a world as a client would, on a clock that the test moves.
#pragma once

#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "tests/world/world.hpp"

namespace spotter::world {

inline constexpr Duration operator""_s(unsigned long long seconds) {
  return Duration{static_cast<Duration::rep>(seconds) * 1000};
}

struct Api {
  using Parameters = std::map<std::string, std::string>;

  explicit Api(Settings settings = {}, std::uint64_t seed = 1) : world(std::move(settings), seed) {}

  Reply raw(const std::string& action, const Parameters& parameters = {}) {
    return world.ec2({.action = action, .parameters = parameters}, now);
  }
  // The one text at `path` below the response's root ("volumeSet/item/status"); "" when it is not
  // there.
  std::string ask(const std::string& action, const Parameters& parameters,
                  const std::string& path) {
    document.load_string(raw(action, parameters).body.c_str());
    std::string query = "/*/" + path;
    return document.select_node(query.c_str()).node().text().get();
  }
  // The number of nodes at `path`.
  std::size_t count(const std::string& action, const Parameters& parameters,
                    const std::string& path) {
    document.load_string(raw(action, parameters).body.c_str());
    return document.select_nodes(("/*/" + path).c_str()).size();
  }
  std::string error(const std::string& action, const Parameters& parameters = {}) {
    return ask(action, parameters, "Errors/Error/Code");
  }
  void wait(Duration duration) {
    now += duration;
    for (Occurrence& it : world.advance(now)) occurred.push_back(std::move(it));
  }
  template <class What>
  std::vector<What> all() const {
    std::vector<What> found;
    for (const Occurrence& it : occurred) {
      if (const What* what = std::get_if<What>(&it)) found.push_back(*what);
    }
    return found;
  }
  std::string volume(const std::string& zone = "us-west-2a") {
    const std::string id =
        ask("CreateVolume", {{"AvailabilityZone", zone}, {"Size", "8"}, {"VolumeType", "gp3"}},
            "volumeId");
    wait(10_s);
    return id;
  }
  std::string instance(const std::string& zone = "us-west-2a") {
    return world.add_instance(Zone(zone), InstanceType("p3.2xlarge"), now)->str();
  }
  std::string attached_volume(const std::string& holder) {
    const std::string id = volume();
    raw("AttachVolume", {{"VolumeId", id}, {"InstanceId", holder}, {"Device", "/dev/sdf"}});
    wait(10_s);
    return id;
  }
  std::string volume_state(const std::string& id) {
    return ask("DescribeVolumes", {{"VolumeId.1", id}}, "volumeSet/item/status");
  }
  // "echo hi" in us-west-2a and us-west-2b, in the form of AWS's documentation.
  std::string spot_fleet(Parameters more = {}) {
    const std::string config = "SpotFleetRequestConfig.";
    const std::string specification = config + "LaunchSpecifications.1.";
    more[config + "IamFleetRole"] = "arn:aws:iam::123456789012:role/fleet";
    more.emplace(config + "TargetCapacity", "1");
    more[specification + "ImageId"] = "ami-1a2b3c4d";
    more[specification + "InstanceType"] = "p3.2xlarge";
    more[specification + "Placement.AvailabilityZone"] = "us-west-2a, us-west-2b";
    more[specification + "UserData"] = "ZWNobyBoaQ==";
    return ask("RequestSpotFleet", more, "spotFleetRequestId");
  }
  std::string fleet_state(const std::string& id) {
    return ask("DescribeSpotFleetRequests", {{"SpotFleetRequestId.1", id}},
               "spotFleetRequestConfigSet/item/spotFleetRequestState");
  }

  World world;
  Time now{};
  std::vector<Occurrence> occurred;
  pugi::xml_document document;
};

}  // namespace spotter::world
