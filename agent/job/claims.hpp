// `claims:` of job.yaml: where machines that share work say who has what.
#pragma once

#include "agent/job/reader.hpp"

namespace spotter::config {

// {at: s3://bucket/prefix, lease: 60s}
Reader::Take claims(Reader& reader, std::optional<Claims>& claims);

// The objects of one job are below its name. Says what a volume has no use for.
void finish_claims(Reader& reader, const Node& root, Job& job);

}  // namespace spotter::config
