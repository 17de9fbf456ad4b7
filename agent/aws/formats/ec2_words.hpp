// What of EC2's answers is read and shown in more than one place.
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

// Of a fleet that cannot be ended: it is not there any more, or is ending already.
inline bool is_ended_already(const FleetFailure& failed) {
  const auto says = [&](const char* word) { return failed.code.find(word) != std::string::npos; };
  return says("DoesNotExist") || says("NotInCancellableState") || says("NotInDeletableState");
}

}  // namespace spotter::wire
