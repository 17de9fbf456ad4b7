// `channels:` of job.yaml: as short texts, as maps, or as SageMaker's InputDataConfig.
#pragma once

#include "agent/job/reader.hpp"

namespace spotter::config {

// {train: "s3://bucket/prefix,gzip"}, {train: {source: s3://bucket/prefix, mode: file, ...}}, a
// list as in CreateTrainingJob, or the path of a file with such a list.
Reader::Take channels(Reader& reader, Channels& channels);

}  // namespace spotter::config
