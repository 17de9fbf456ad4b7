// The operations of the API by path, each a JSON object -> a JSON object.
#pragma once

#include <map>

#include "tests/world/batch/reader.hpp"
#include "tests/world/batch/state.hpp"

namespace spotter::world::batch {

using Answer = Expected<Json>;
struct Operation {
  const char* name;  // SubmitJob; the path is /v1/submitjob
  Answer (*carry_out)(State& state, const Json& request, const std::string& caller);
};
const std::map<std::string, Operation>& operations();  // by path

Json describe(const State& state, const Job& job);   // JobDetail
Json summarize(const State& state, const Job& job);  // JobSummary
Json describe(const ComputeEnvironment& environment);
Json describe(const State& state, const JobQueue& queue);
Json describe(const JobDefinition& definition);

Answer list_jobs(State& state, const Json& request);

// The part of `rows` that maxResults and nextToken choose, as request and answer name it.
Json page(const Reader& reader, const char* list, std::vector<Json> rows, int most = 100);

}  // namespace spotter::world::batch
