// Tags on anything that has an id.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html (50 a resource, aws: is
// reserved)
#pragma once

#include "tests/world/cloud.hpp"

namespace spotter::world {

struct TagRow {
  std::string resource;
  std::string type;  // volume, snapshot, instance, spot-fleet-request, fleet, launch-template
  std::string key;
  std::string value;
  Tags tags;  // this one, for the filters
};

// All of the resources or none: an unknown id changes nothing.
Expected<void> create_tags(Cloud& cloud, const std::vector<std::string>& resources,
                           const Tags& tags);
// A tag goes when its key is named, with a value: only when that is its value. No tags named: all
// go, but those of AWS.
Expected<void> delete_tags(
    Cloud& cloud, const std::vector<std::string>& resources,
    const std::vector<std::pair<std::string, std::optional<std::string>>>& tags);
std::vector<TagRow> list_tags(const Cloud& cloud);

}  // namespace spotter::world
