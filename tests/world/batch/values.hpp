// The things of AWS Batch as plain structs, named as its API reference names them:
// https://docs.aws.amazon.com/batch/latest/APIReference/Welcome.html
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tests/world/settings.hpp"
#include "tests/world/values.hpp"

namespace spotter::world::batch {

using Json = nlohmann::json;

// Typical delays (AWS promises none); the seed draws each one from its range.
struct Settings {
  Range resource_change{Duration{500}, Duration{1500}};  // CREATING or UPDATING -> VALID
  Range entry{Duration{100}, Duration{500}};             // SUBMITTED -> PENDING or RUNNABLE
  Range registration{Duration{1000}, Duration{3000}};    // an instance runs -> ECS knows it
  Range start{Duration{500}, Duration{2000}};            // STARTING -> RUNNING: the image's pull
  // SIGTERM, then SIGKILL, where the user data does not set ECS_CONTAINER_STOP_TIMEOUT.
  Duration stop_timeout{30000};
  Duration idle_host{60000};      // a host with nothing to do is given back after that
  Duration capacity_retry{5000};  // no zone has an instance: try again
  // A reclaimed host drains at its notice if the user data of the environment's launch template
  // sets ECS_ENABLE_SPOT_INSTANCE_DRAINING=true for ECS's agent; otherwise, as at AWS by
  // default, its jobs get SIGTERM when the operating system shuts down. This overrides it.
  std::optional<bool> drain_at_notice = std::nullopt;
};

enum class Status : std::uint8_t {
  Submitted,
  Pending,
  Runnable,
  Starting,
  Running,
  Succeeded,
  Failed
};
inline constexpr std::size_t statuses = 7;
std::string_view name(Status status);  // SUBMITTED
std::optional<Status> status_of(std::string_view name);
inline bool is_final(Status status) {
  return status == Status::Succeeded || status == Status::Failed;
}

enum class Condition : std::uint8_t { Creating, Updating, Deleting, Valid };
std::string_view name(Condition condition);

struct Capacity {
  int vcpus = 0;
  int memory = 0;  // MiB
  int gpus = 0;

  bool holds(const Capacity& other) const {
    return other.vcpus <= vcpus && other.memory <= memory && other.gpus <= gpus;
  }
  Capacity& operator+=(const Capacity& other);
  Capacity& operator-=(const Capacity& other);
};

// One condition of a retry strategy; a pattern that is absent holds.
struct ExitRule {
  std::optional<std::string> on_status_reason;
  std::optional<std::string> on_reason;
  std::optional<std::string> on_exit_code;
  bool retry = false;
};
struct RetryStrategy {
  int attempts = 1;
  std::vector<ExitRule> rules;
};

// The end of an attempt.
struct Ending {
  std::optional<int> exit_code;  // absent: the container never ran, or nobody was left to tell
  std::string reason;            // the container's: CannotStartContainerError: ...
  std::string status_reason;     // the job's: Host EC2 (instance i-...) terminated.
};

struct ComputeEnvironment {
  std::string name;
  std::string arn;
  std::string uuid;
  bool managed = true;
  bool enabled = true;
  Condition condition = Condition::Creating;
  std::uint64_t change = 0;  // which change is under way
  Json resources;            // computeResources as given; null where unmanaged
  std::string service_role;
  Tags tags;

  int number(const char* field) const {
    return resources.is_object() ? resources.value(field, 0) : 0;
  }
};

struct JobQueue {
  std::string name;
  std::string arn;
  bool enabled = true;
  Condition condition = Condition::Creating;
  std::uint64_t change = 0;
  int priority = 0;
  std::vector<std::string> environments;  // names, in their order
  std::vector<int> orders;                // the numbers given for these
  Tags tags;
};

struct JobDefinition {
  std::string name;
  int revision = 1;
  std::string arn;
  bool active = true;
  Json document;  // as registered: containerProperties, parameters, retryStrategy, timeout, ...
  Tags tags;
};

// A submitted job: its definition with the overrides merged in. Shared by an array's children.
struct Submission {
  std::string name;
  std::string queue;       // its name
  std::string definition;  // its ARN
  std::string caller;
  Json container;  // containerProperties with the overrides
  Json parameters;
  Json depends_on;                   // as given
  Json retry_document;               // as it is described
  std::vector<std::string> command;  // with the parameters in it
  std::vector<std::pair<std::string, std::string>> environment;
  Capacity needs;
  RetryStrategy retry;
  std::optional<Duration> timeout;
  int size = 0;  // of the array; 0: no array
  Tags tags;
};

// One attempt of one job: what is sent to a host, and comes from one, names it.
struct Run {
  std::string job;
  int attempt = 1;
  auto operator<=>(const Run&) const = default;
};

struct Attempt {
  InstanceId host;
  std::string task;  // ECS's id of it
  std::string log_stream;
  std::optional<Time> started;
  std::optional<Time> stopped;
  Ending ending;
};

struct Job {
  std::string id;  // a UUID; of a child UUID:index
  std::shared_ptr<const Submission> what;
  std::optional<int> index;  // of a child
  Status status = Status::Submitted;
  std::string status_reason;
  Time created{};
  std::optional<Time> started;
  std::optional<Time> stopped;
  std::vector<Attempt> attempts;
  std::set<std::string> waits_for;       // jobs
  std::optional<std::string> given_up;   // TerminateJob's reason, or the timeout: no other attempt
  std::uint64_t turn = 0;                // among the runnable ones of its queue
  std::array<int, statuses> children{};  // of an array: how many are in each status
  Tags tags = {};
  bool cancelled = false;  // by CancelJob, before it started
  bool terminated = false;

  bool is_array() const { return what->size > 0 && !index; }
  Run run() const { return {id, static_cast<int>(attempts.size())}; }
};

// An instance of the world that belongs to a compute environment.
struct Host {
  InstanceId id;
  std::string environment;  // name
  Capacity total;
  Capacity used;
  std::set<Run> runs;
  bool registering = false;
  bool ready = false;
  bool leaving = false;    // reclaimed, or given back: nothing new starts there
  std::uint64_t idle = 0;  // which idleness counts
};

// Orders to the emulator for a host.
struct RunJob {
  Run run;
  InstanceId host;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string task;
  std::string log_stream;
};
struct StopJob {  // SIGTERM to the command
  Run run;
  InstanceId host;
};
struct KillJob {  // SIGKILL to all that it has started
  Run run;
  InstanceId host;
};
using Order = std::variant<RunJob, StopJob, KillJob>;

}  // namespace spotter::world::batch
