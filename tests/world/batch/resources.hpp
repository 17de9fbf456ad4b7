// Compute environments, job queues and job definitions.
#pragma once

#include "tests/world/batch/reader.hpp"
#include "tests/world/batch/state.hpp"

namespace spotter::world::batch {

class Resources {
 public:
  explicit Resources(State& state) : state_(state) {}

  Expected<ComputeEnvironment> create_environment(const Json& request);
  Expected<ComputeEnvironment> update_environment(const Json& request);
  Expected<void> delete_environment(const Json& request);
  Expected<JobQueue> create_queue(const Json& request);
  Expected<JobQueue> update_queue(const Json& request);
  Expected<void> delete_queue(const Json& request);
  Expected<JobDefinition> register_definition(const Json& request);
  Expected<void> deregister_definition(const Json& request);

  // By name or ARN; nullptr when there is none.
  ComputeEnvironment* environment(const std::string& reference);
  JobQueue* queue(const std::string& reference);
  // NAME (the newest active revision), NAME:REVISION or the ARN of either.
  JobDefinition* definition(const std::string& reference);
  // The tags of whatever has this ARN; nullptr when nothing has.
  Tags* tags(const std::string& arn);

  void on(const EnvironmentSettles& happening);
  void on(const QueueSettles& happening);

 private:
  void read_orders(const Reader& reader, JobQueue& queue);
  void change(ComputeEnvironment& environment, Condition condition);
  void change(JobQueue& queue, Condition condition);

  State& state_;
};

}  // namespace spotter::world::batch
