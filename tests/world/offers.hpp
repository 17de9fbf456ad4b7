// What is known of images and instance types where something is launched.
#pragma once

#include <string>

namespace spotter::world {

// "x86_64" or "arm64"; empty: of what DescribeImages or DescribeInstanceTypes do not know, of which
// every image and type is taken.
std::string architecture_of_image(const std::string& id);
std::string architecture_of_type(const std::string& type);

}  // namespace spotter::world
