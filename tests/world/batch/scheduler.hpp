// Decides which job starts on which host, and how many hosts there are.
// https://docs.aws.amazon.com/batch/latest/userguide/job_scheduling.html
//
// Queues are asked by priority, each in the order in which its jobs became runnable. A job that
// waits for room holds its compute environments for itself: a less important queue cannot take the
// room bit by bit, and within a queue nobody overtakes.
#pragma once

#include "tests/world/batch/jobs.hpp"
#include "tests/world/batch/state.hpp"

namespace spotter::world::batch {

class Scheduler {
 public:
  explicit Scheduler(State& state) : state_(state) {}

  // Sees what has become of the hosts' instances.
  void watch();
  void look();  // places, then grows

  void on(const HostRegisters& happening);
  void on(const HostIdles& happening);

 private:
  std::vector<JobQueue*> queues();  // by priority
  void place();
  Host* room_for(const JobQueue& queue, const Capacity& needs, const std::set<std::string>& held);
  void grow();
  bool plan_room(const JobQueue& queue, const Capacity& needs,
                 std::map<InstanceId, Capacity>& coming);
  std::optional<std::string> why_never(const JobQueue& queue, const Capacity& needs) const;
  bool may_grow(const ComputeEnvironment& environment, int vcpus) const;
  Host* launch(const ComputeEnvironment& environment, const Capacity& needs);
  std::optional<InstanceId> launch_instance(const ComputeEnvironment& environment,
                                            const InstanceType& type);
  void give_back(Host& host);
  int vcpus_of(const std::string& environment) const;

  State& state_;
};

}  // namespace spotter::world::batch
