// `claims:` of job.yaml: where machines that share work record who has which experiment.
#pragma once

#include "agent/job/reader.hpp"

namespace spotter::config {

// {at: s3://bucket/prefix, lease: 60s}
Reader::Take claims(Reader& reader, std::optional<Claims>& claims);

// Appends the job's name to the prefix. Reports settings that make no sense with claims.
void finish_claims(Reader& reader, const Node& root, Job& job);

}  // namespace spotter::config
