// `spotter agent` where several machines share a job: claims an experiment in S3, runs it by an
// agent of its own (`spotter agent --once`) under a lease, publishes the result, and claims the
// next. The machine that finds all of them done cancels the fleet; one that finds none free leaves
// it.
#pragma once

#include "agent/config/job.hpp"

namespace spotter {

// Returns when nothing is left to do here: 0. 2: the job is wrong. 1: every experiment fails on
// this machine. 75 (EX_TEMPFAIL): to be started again, as S3 does not return the list now.
// REQUIRES: job.is_handed_out().
int work(config::Job job, const std::string& job_file);

}  // namespace spotter
