// What of EC2's answers is read and told in more than one place.
#pragma once

#include <string>
#include <string_view>

#include "agent/aws/formats/ec2_values.hpp"

namespace spotter::wire {

// Empty: there is no such tag, or it has no value.
inline std::string value_of(const Tags& tags, const std::string& key) {
  const auto found = tags.find(key);
  return found == tags.end() ? std::string() : found->second;
}

inline std::string_view to_text(VolumeState state) {
  constexpr std::string_view words[] = {"creating", "available", "in-use", "deleting",
                                        "deleted",  "error",     "unknown"};
  return words[static_cast<std::size_t>(state)];
}

}  // namespace spotter::wire
