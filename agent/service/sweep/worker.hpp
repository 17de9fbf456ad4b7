// `spotter agent` where several machines share the work of a job: claims a piece of it in S3, has
// it run by an agent of its own (`spotter agent --once`) under a lease, publishes the result, and
// claims the next. The machine that finds everything done cancels the fleet; one for which nothing
// is left leaves it.
#pragma once

#include <string>

#include "agent/job/job.hpp"

namespace spotter {

// Until there is nothing more to do here: 0. 2: the job is wrong. 1: this machine fails at
// everything. 75 (EX_TEMPFAIL): to be started again, as S3 does not give the list now. REQUIRES:
// job.is_handed_out().
int work(config::Job job, const std::string& job_file);

}  // namespace spotter
