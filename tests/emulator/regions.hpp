// AWS's regions. EC2, Auto Scaling and the machines' metadata have nothing in common between two:
// each is a world of its own, in which an id of another region is not there. Credentials and
// policies are one for all, as IAM's are.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/world/world.hpp"

namespace spotter::emulator {

class Regions {
 public:
  // One for each region of settings.zones, whose names are a region's and one letter; the first
  // zone's is the home, where IAM, S3 and what else is not modelled by region answer.
  Regions(const world::Settings& settings, std::uint64_t seed);

  // Makes each world what it was at first, where it is: references to it go on.
  void reset(const world::Settings& settings, std::uint64_t seed);

  world::World& home() { return *worlds_.front(); }
  world::World* named(std::string_view region);  // nullptr: there is no such region
  // The world that has it; the home, if none does.
  world::World& of(const InstanceId& id);
  world::World& of(const Zone& zone);
  world::World& of(const VolumeId& id);
  const std::vector<std::unique_ptr<world::World>>& all() const { return worlds_; }

  // The key that a request names, whichever region has given it out.
  std::optional<world::Credential> credential(std::string_view access_key, Time now);

  std::vector<world::Occurrence> advance(Time now);
  std::optional<Time> next() const;

 private:
  std::vector<std::unique_ptr<world::World>> worlds_;
};

}  // namespace spotter::emulator
