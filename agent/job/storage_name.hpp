// By what two jobs of one name are told apart while neither has a volume, or has no volume at all.
#pragma once

#include <string>

#include "agent/aws/formats/tags.hpp"
#include "agent/job/job.hpp"

namespace spotter::config {

// The value of the tag `spotter:storage` of all that is made for this job: "Name=mnist-volume", the
// tag by which job.yaml names its volume, or "efs:fs-0123abcd/path". Cut to the 256 bytes that fit
// into a tag's value. Empty: it has none.
std::string storage_name(const Job& job);

// Was what has these tags made for other storage? What has none is older than the tag: it is not.
template <class Tags>
bool is_of_other_storage(const Tags& tags, const Job& job) {
  const auto found = tags.find(tag::storage);
  return found != tags.end() && !found->second.empty() && found->second != storage_name(job);
}

}  // namespace spotter::config
