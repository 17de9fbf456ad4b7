// From a job definition and a SubmitJob request to what will run.
#pragma once

#include "tests/world/batch/reader.hpp"
#include "tests/world/batch/state.hpp"

namespace spotter::world::batch {

// RegisterJobDefinition's containerProperties, retryStrategy and timeout.
void check_definition(const Reader& request);

// REQUIRES: the request was read as a JSON object. Dependencies are checked by whoever knows jobs.
Expected<Submission> plan(const JobDefinition& definition, const JobQueue& queue,
                          const Json& request);

}  // namespace spotter::world::batch
