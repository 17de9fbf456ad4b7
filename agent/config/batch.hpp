// `sweep.batch:` of job.yaml: where a sweep runs on AWS Batch.
#pragma once

#include "agent/aws/formats/batch.hpp"

namespace spotter::config {

class Reader;
struct Node;

// Names are empty where job.yaml has none; name_after() makes them from the job's name.
struct Batch {
  wire::BatchEnvironment environment;
  wire::BatchQueue queue;
  wire::BatchDefinition definition;
};

// Its keys are in batch_fields(), and for a person in job.yaml(5).
void read_batch(Reader& reader, const Node& node, const std::string& path, Batch& batch);

// Completes names and tags. `storage`: storage_name(), which tells namesakes apart; characters that
// a tag's value may not have (AWS Batch, "Tag restrictions") become dots.
void name_after(const std::string& job, std::string storage, Batch& batch);

}  // namespace spotter::config
