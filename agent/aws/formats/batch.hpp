// The parts of AWS Batch that a sweep needs, as values. Names are the API's own.
// Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_Types.html
#pragma once

#include <chrono>
#include <set>

#include "agent/aws/formats/aws_command.hpp"

namespace spotter::wire {

// The exit status of `spotter run` when it was interrupted and is to be run again (EX_TEMPFAIL of
// sysexits.h). The retry strategy knows it.
inline constexpr int interrupted_exit_code = 75;

// Managed, of spot instances, from 0 vCPUs up.
struct BatchEnvironment {
  std::string name;
  int max_vcpus = 0;
  std::vector<std::string> instance_types;  // types, families, "optimal"
  std::vector<std::string> subnets;
  std::vector<std::string> security_groups;
  std::string instance_role;
  std::string service_role;     // empty: Batch's service-linked role
  std::string launch_template;  // lt-... or a name, either with :VERSION; empty: none
  Tags tags;
};

struct BatchQueue {
  std::string name;
  int priority = 1;
  std::string environment;  // name
  Tags tags;
};

// A folder of the container, from EFS or from its host.
struct BatchVolume {
  std::string mount;         // in the container
  std::string file_system;   // fs-...; empty: `folder` is the host's
  std::string access_point;  // fsap-...
  std::string folder;        // of the file system (empty: its root), or of the host
  bool read_only = false;
};

struct BatchDefinition {
  std::string name;
  std::string image;
  std::vector<std::string> command;
  int vcpus = 0;
  int memory = 0;  // MiB
  int shared_memory =
      0;  // of it, in /dev/shm, for data loaders with workers; Docker's 64 are too few
  int gpus = 0;
  int attempts = 1;
  std::map<std::string, std::string> environment;
  std::vector<BatchVolume> volumes;
  std::string job_role;  // ARN; empty: none
  std::optional<std::chrono::seconds> timeout;
  Tags tags;
};

struct BatchSubmission {
  std::string name;
  std::string queue;
  std::string definition;  // name, or the ARN of a revision
  std::size_t size = 1;    // an array from 2 on
  std::map<std::string, std::string> environment;
  Tags tags;
};

// An environment or a queue as it is.
struct BatchResource {
  std::string arn;
  std::string status;  // CREATING UPDATING VALID INVALID DELETING DELETED
  std::string reason;
  std::set<std::string> differs = {};  // names of its settings that are not as wanted
  Tags tags = {};
};

struct BatchJob {
  std::string id;
  std::string name;
  std::string status;  // SUBMITTED PENDING RUNNABLE STARTING RUNNING SUCCEEDED FAILED
  std::string reason;
  std::int64_t created = 0;  // ms since 1970
  std::optional<int> exit_code;
  std::optional<std::size_t> index;                // of a child
  std::size_t size = 0;                            // of an array
  std::map<std::string, std::size_t> children;     // of an array: status -> how many
  std::map<std::string, std::string> environment;  // what DescribeJobs shows
  Tags tags;                                       // and shows alone
};

// AWS Batch: values -> requests, answers -> values. REST-JSON: POST /v1/ACTION. No I/O.
//
// A decoder skips what it does not know, and fails on an answer that is no JSON object or lacks
// what it needs. Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_Operations.html

AwsCommand create(const BatchEnvironment& environment);
// Sends only what differs: some settings Batch changes only by replacing the hosts, and some only
// where it works with its own role.
// https://docs.aws.amazon.com/batch/latest/userguide/updating-compute-environments.html
AwsCommand update(const BatchEnvironment& environment, const BatchResource& there);
AwsCommand create(const BatchQueue& queue);
AwsCommand update(const BatchQueue& queue, const BatchResource& there);
// Tries again when the host was reclaimed or the program exits with interrupted_exit_code, never
// when it failed by itself.
AwsCommand register_definition(const BatchDefinition& definition);
AwsCommand submit(const BatchSubmission& submission);
AwsCommand terminate(const std::string& job, const std::string& reason);

AwsCommand describe_environment(const std::string& name);
AwsCommand describe_queue(const std::string& name);
AwsCommand describe_definitions(const std::string& name);  // the active ones
AwsCommand describe_jobs(const std::vector<std::string>& ids);
// Jobs of any status, the newest first. `name` may end in '*'.
AwsCommand list_jobs(const std::string& queue, const std::string& name, const std::string& token);
AwsCommand list_children(const std::string& array, const std::string& status,
                         const std::string& token);

// Nothing: there is none of that name.
Result<std::optional<BatchResource>> decode_environment(std::string_view json,
                                                        const BatchEnvironment& wanted);
Result<std::optional<BatchResource>> decode_queue(std::string_view json, const BatchQueue& wanted);
// The ARN of the newest revision, where that is as wanted; else empty.
Result<std::string> decode_definition(std::string_view json, const BatchDefinition& wanted);
Result<std::string> decode_registered(std::string_view json);  // the ARN
Result<std::string> decode_submitted(std::string_view json);   // the job's id
Result<std::vector<BatchJob>> decode_jobs(std::string_view json);
Result<Page<BatchJob>> decode_job_list(std::string_view json);

}  // namespace spotter::wire
