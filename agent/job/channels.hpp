// `channels:` of job.yaml: in short, as maps, or as SageMaker's InputDataConfig.
#pragma once

#include "agent/job/reader.hpp"

namespace spotter::config {

// {train: "s3://bucket/prefix,gzip"}, {train: {source: s3://bucket/prefix, mode: file, ...}}, a
// list as CreateTrainingJob has it, or the path of a file with that list.
Reader::Take channels(Reader& reader, Channels& channels);

}  // namespace spotter::config
