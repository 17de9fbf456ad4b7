// What a sweep needs of AWS Batch, as values. Names are the API's own.
// Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_Types.html
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace spotter::wire {

// What `spotter run` exits with when it was interrupted and is to be run again (EX_TEMPFAIL of
// sysexits.h). The retry strategy knows it.
inline constexpr int interrupted_exit_code = 75;

using BatchTags = std::map<std::string, std::string>;

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
  BatchTags tags;
};

struct BatchQueue {
  std::string name;
  int priority = 1;
  std::string environment;  // name
  BatchTags tags;
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
  int gpus = 0;
  int attempts = 1;
  std::map<std::string, std::string> environment;
  std::vector<BatchVolume> volumes;
  std::string job_role;  // ARN; empty: none
  std::optional<std::chrono::seconds> timeout;
  BatchTags tags;
};

struct BatchSubmission {
  std::string name;
  std::string queue;
  std::string definition;  // name, or the ARN of a revision
  std::size_t size = 1;    // an array from 2 on
  std::map<std::string, std::string> environment;
  BatchTags tags;
};

// An environment or a queue as it is.
struct BatchResource {
  std::string arn;
  std::string status;  // CREATING UPDATING VALID INVALID DELETING DELETED
  std::string reason;
  std::set<std::string> differs = {};  // names of its settings that are not as wanted
  BatchTags tags = {};
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
  BatchTags tags;                                  // and shows alone
};

}  // namespace spotter::wire
