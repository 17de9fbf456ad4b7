// The whole state of the fake AWS Batch, and what its parts share: time, chance, the agenda, the
// orders for the hosts. Its hosts are instances of the world.
#pragma once

#include <map>
#include <variant>

#include "tests/world/batch/values.hpp"
#include "tests/world/random.hpp"
#include "tests/world/world.hpp"

namespace spotter::world::batch {

// Happenings that fall due. An overtaken one does nothing.
struct EnvironmentSettles {
  std::string name;
  std::uint64_t change;
};
struct QueueSettles {
  std::string name;
  std::uint64_t change;
};
struct JobEnters {
  std::string id;
};
struct ContainerStarts {
  Run run;
};
struct TimeoutDue {
  Run run;
};
struct KillDue {
  Run run;
};
struct HostRegisters {
  InstanceId id;
};
struct HostIdles {
  InstanceId id;
  std::uint64_t idle;
};
struct LookAgain {};
using Happening = std::variant<EnvironmentSettles, QueueSettles, JobEnters, ContainerStarts,
                               TimeoutDue, KillDue, HostRegisters, HostIdles, LookAgain>;

struct State {
  World& world;
  Settings settings;
  Random random;
  Time now{};
  std::multimap<Time, Happening> agenda;
  std::vector<Order> orders;  // not yet taken by the emulator
  bool changed = false;       // worth a look of the scheduler

  std::map<std::string, ComputeEnvironment> environments;         // by name
  std::map<std::string, JobQueue> queues;                         // by name
  std::map<std::string, std::vector<JobDefinition>> definitions;  // by name, by revision
  std::map<std::string, Job> jobs;                                // by id
  std::multimap<std::string, std::string> dependents;             // job -> one that waits for it
  // By queue: those that wait for a host, in their turn.
  std::map<std::string, std::map<std::uint64_t, std::string>> runnable;
  std::map<InstanceId, Host> hosts;
  std::uint64_t numbers = 0;

  void schedule(Duration later, Happening what) { agenda.emplace(now + later, std::move(what)); }
  std::uint64_t number() { return ++numbers; }
  std::string arn(const std::string& kind, const std::string& name) const;
};

}  // namespace spotter::world::batch
