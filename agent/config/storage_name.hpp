// The name that tells two jobs of one name apart while they have no volume, or never have one.
#pragma once

#include "agent/aws/formats/tags.hpp"
#include "agent/config/job.hpp"

namespace spotter::config {

// The value of the tag `spotter:storage` of all that is made for this job: the tag by which
// job.yaml names its volume ("Name=mnist-volume"), or "efs:fs-0123abcd/path". Cut to the 256 bytes
// that a tag's value may have. Empty: the job has no storage.
std::string storage_name(const Job& job);

// True: the tags are of a thing made for other storage. False without the tag, as older ones are.
template <class Tags>
bool is_of_other_storage(const Tags& tags, const Job& job) {
  const auto found = tags.find(tag::storage);
  return found != tags.end() && !found->second.empty() && found->second != storage_name(job);
}

}  // namespace spotter::config
