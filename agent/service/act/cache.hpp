// Where a job keeps what can be fetched again, if job.yaml wants it on the machine's own disks.
#pragma once

#include <string>

#include "agent/job/job.hpp"

namespace spotter::act {

// A folder beside the storage, shared by all that the job runs on this machine. Empty: job.yaml
// wants none. It exists only where the machine has such disks.
inline std::string cache_folder(const config::Job& job) {
  if (!job.cache_on_instance_store) return {};
  // Then the working copy is on that disk, too, and this folder of it goes to no bucket.
  if (job.storage.in_bucket()) return job.home() + "/cache";
  return job.storage.mount() + "-cache/" + job.name.str();
}

}  // namespace spotter::act
