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

//   image: 123456789012.dkr.ecr.us-west-2.amazonaws.com/trainer:1     required, as AWS has it
//   vcpus: 4, memory: 16000 (MiB), gpus: 1                           the first two required
//   shared_memory: 8000 (MiB)          of it, in /dev/shm; default: half of it
//   max_vcpus: 64                                                    of all together; required
//   subnets: [subnet-1, ...]                                         required
//   security_groups: [sg-1]            required, unless a launch template has them
//   instance_types: [g5.xlarge, ...]   default: optimal; families are allowed
//   instance_role: ecsInstanceRole     the instance profile; this is the default
//   service_role: ARN                  default: Batch's service-linked role
//   launch_template: lt-... | NAME, with :VERSION where it is not the default one
//   job_role: ARN                      of the container; default: the instance's
//   command: [spotter, run, ...] | a line for /bin/sh
//                                      default: spotter run --job /etc/spotter/job.yaml
//   environment: {NAME: value}         of the container
//   volumes: [{efs: fs-..., access_point: fsap-..., mount: /mnt/efs}, {host: /data, mount: /data}]
//   attempts: 10                       of each set, those that were interrupted among them; 1 to 10
//   timeout: 12h                       of each attempt, 60s at least; default: none
//   priority: 1                        of the queue
//   queue: NAME, compute_environment: NAME      default: spotter-<job>
void read_batch(Reader& reader, const Node& node, const std::string& path, Batch& batch);

// Completes names and tags. `storage`: storage_name(), which tells namesakes apart; characters that
// a tag's value may not have (AWS Batch, "Tag restrictions") become dots.
void name_after(const std::string& job, std::string storage, Batch& batch);

}  // namespace spotter::config
