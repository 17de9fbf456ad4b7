// Facts about images and instance types that launches depend on.
#pragma once

#include <string>

#include "tests/world/settings.hpp"

namespace spotter::world {

// "x86_64" or "arm64"; empty for what DescribeImages or DescribeInstanceTypes does not know: then
// every image and type is taken.
std::string architecture_of_image(const Settings& settings, const std::string& id);
// The name, in the world's region, of an image of AWS's in us-west-2; and whether this image exists
// only in another region.
std::string local_image(const Settings& settings, std::string id);
bool is_of_another_region(const Settings& settings, const std::string& id);
std::string architecture_of_type(const std::string& type);
// A type's network cards; nothing if the type is not known.
struct Network {
  int cards = 1;
  int interfaces = 4;  // of each card, at most
  int efas = 0;        // of all cards, at most; a card has one
};
std::optional<Network> network_of_type(const std::string& type);
// Whether a cluster placement group takes it; of a type that is not known: true.
bool fits_in_a_cluster(const std::string& type);

}  // namespace spotter::world
