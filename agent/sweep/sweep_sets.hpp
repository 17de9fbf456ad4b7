// The parameter sets of a job with a sweep, wherever they are.
#pragma once

#include "agent/job/experiment.hpp"

namespace spotter::command {

// The sets of a job with a sweep, fetched from S3 where that is where they are, and checked
// against the trainer's command. Problem::passing: S3 does not answer, or there are no credentials
// (yet: a container's or an instance's come a moment after it).
FetchedSets sets_of(const config::Job& job);

}  // namespace spotter::command
