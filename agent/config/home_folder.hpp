// The home ($HOME) of the trainer's user, where it is a folder of the job's storage.
#pragma once

#include "agent/config/job.hpp"

namespace spotter::config {

// The user of a job that names none: the package's own account, as which nobody logs in.
inline constexpr const char* own_user = "spotter";
inline constexpr const char* users_home = ".home";  // in Job::home()

// True: all that the user keeps (models that were downloaded, say) is there on the next machine,
// too. False for a person's account; for a home in a bucket, which would keep all of it; and where
// the folder is not the job's for long, as of an attempt and of a gang's member: the user has the
// home that the machine knows.
inline bool has_home_in_storage(const Job& job) {
  return job.trainer.user == own_user && !job.trainer.inherits && !job.storage.in_bucket() &&
         job.attempt.empty() && !job.gang;
}

}  // namespace spotter::config
