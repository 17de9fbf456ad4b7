// Where a job keeps what can be fetched again, when job.yaml wants it on the machine's own disks.
#pragma once

#include <string>

#include "agent/job/job.hpp"

namespace spotter::act {

// Beside the storage: all that the job does on this machine shares it. Empty: it wants none. The
// folder is there where the machine has such disks.
inline std::string cache_folder(const config::Job& job) {
  if (!job.cache_on_instance_store) return {};
  return job.storage.mount() + "-cache/" + job.name.str();
}

}  // namespace spotter::act
