#include "tests/world/batch/scheduler.hpp"

#include <algorithm>
#include <tuple>

#include "tests/world/batch/ecs_agent.hpp"
#include "tests/world/batch/instance_types.hpp"
#include "tests/world/ec2_api.hpp"

namespace spotter::world::batch {
namespace {

std::vector<std::string> texts(const Json& resources, const char* name) {
  const auto found = resources.find(name);
  return found == resources.end() ? std::vector<std::string>{}
                                  : found->get<std::vector<std::string>>();
}

Capacity free_of(const Host& host) {
  Capacity free = host.total;
  return free -= host.used;
}

}  // namespace

void Scheduler::watch() {
  for (auto it = state_.hosts.begin(); it != state_.hosts.end();) {
    Host& host = it->second;
    const Instance& instance = *state_.world.cloud().instances.find(host.id);
    const bool gone = !is_alive(instance) && !instance.started;  // and nothing runs on it
    if (gone) {
      Jobs(state_).lose(host);
      it = state_.hosts.erase(it);
      state_.changed = true;
      continue;
    }
    const bool noticed = instance.notice && drains_at_notice(state_, host);
    if (!host.leaving && (noticed || !is_alive(instance))) {
      host.leaving = state_.changed = true;
      if (noticed) Jobs(state_).drain(host);
    }
    if (!host.registering && instance.state == InstanceState::Running) {
      host.registering = true;
      state_.schedule(state_.random.within(state_.settings.registration), HostRegisters{host.id});
    }
    ++it;
  }
}

void Scheduler::on(const HostRegisters& happening) {
  const auto found = state_.hosts.find(happening.id);
  if (found == state_.hosts.end()) return;
  Host& host = found->second;
  host.ready = state_.changed = true;
  host.idle = state_.number();
  state_.schedule(state_.settings.idle_host, HostIdles{host.id, host.idle});
}

void Scheduler::on(const HostIdles& happening) {
  const auto found = state_.hosts.find(happening.id);
  if (found == state_.hosts.end() || found->second.idle != happening.idle) return;
  Host& host = found->second;
  const auto environment = state_.environments.find(host.environment);
  if (environment == state_.environments.end()) return;  // look() gives it back
  const int left = vcpus_of(host.environment) - (host.leaving ? 0 : host.total.vcpus);
  if (left >= environment->second.number("minvCpus")) give_back(host);
}

void Scheduler::give_back(Host& host) {
  host.leaving = true;
  state_.world.instances(state_.now)
      .shut_down(host.id, "Client.UserInitiatedShutdown: User initiated shutdown");
}

int Scheduler::vcpus_of(const std::string& environment) const {
  int vcpus = 0;
  for (const auto& [id, host] : state_.hosts) {
    if (host.environment == environment && !host.leaving) vcpus += host.total.vcpus;
  }
  return vcpus;
}

void Scheduler::look() {
  for (auto& [id, host] : state_.hosts) {
    if (!host.leaving && !state_.environments.count(host.environment)) give_back(host);
  }
  place();
  grow();
}

std::vector<JobQueue*> Scheduler::queues() {
  std::vector<JobQueue*> result;
  for (auto& [name, queue] : state_.queues) {
    if (queue.condition == Condition::Valid) result.push_back(&queue);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto* a, const auto* b) { return a->priority > b->priority; });
  return result;
}

void Scheduler::place() {
  std::set<std::string> held;  // environments for which a more important job waits
  for (const JobQueue* queue : queues()) {
    auto& waiting = state_.runnable[queue->name];
    while (!waiting.empty()) {
      Job& job = state_.jobs.at(waiting.begin()->second);
      Host* const host = room_for(*queue, job.what->needs, held);
      if (!host) break;
      Jobs(state_).place(job, *host);
    }
    if (!waiting.empty()) held.insert(queue->environments.begin(), queue->environments.end());
  }
}

// The fullest host with room, in the first environment that has one.
Host* Scheduler::room_for(const JobQueue& queue, const Capacity& needs,
                          const std::set<std::string>& held) {
  for (const std::string& name : queue.environments) {
    const auto environment = state_.environments.find(name);
    if (environment == state_.environments.end() || !environment->second.enabled) continue;
    if (held.count(name)) continue;
    Host* best = nullptr;
    for (auto& [id, host] : state_.hosts) {
      if (host.environment != name || !host.ready || host.leaving) continue;
      if (!free_of(host).holds(needs)) continue;
      if (!best || free_of(host).vcpus < free_of(*best).vcpus) best = &host;
    }
    if (best) return best;
  }
  return nullptr;
}

void Scheduler::grow() {
  std::map<InstanceId, Capacity> coming;  // room on hosts that are not ready yet
  for (const auto& [id, host] : state_.hosts) {
    if (!host.ready && !host.leaving) coming[id] = host.total;
  }
  for (const JobQueue* queue : queues()) {
    for (const auto& [turn, id] : state_.runnable[queue->name]) {
      Job& job = state_.jobs.at(id);
      if (plan_room(*queue, job.what->needs, coming)) continue;
      if (const auto why = why_never(*queue, job.what->needs)) job.status_reason = *why;
      break;
    }
  }
  for (const auto& [name, environment] : state_.environments) {
    while (environment.managed && environment.condition == Condition::Valid &&
           vcpus_of(name) < environment.number("minvCpus") && launch(environment, {})) {
    }
  }
}

// A job at the head of its queue that can never be placed stays RUNNABLE, and says why.
// https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html
std::optional<std::string> Scheduler::why_never(const JobQueue& queue,
                                                const Capacity& needs) const {
  bool fits = false;
  for (const std::string& name : queue.environments) {
    const auto found = state_.environments.find(name);
    if (found == state_.environments.end() || !found->second.managed) return std::nullopt;
    const auto types = expand_types(texts(found->second.resources, "instanceTypes"));
    const bool here = std::ranges::any_of(
        types, [&](const TypeCapacity& it) { return it.capacity.holds(needs); });
    if (here && needs.vcpus <= found->second.number("maxvCpus")) return std::nullopt;
    fits = fits || here;
  }
  if (fits)
    return "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - CE(s) associated with the job "
           "queue "
           "have a maxvCpu parameter that is smaller than the job requirements.";
  return "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement "
         "(vCPU/memory/GPU) is higher than that can be met by the CE(s) attached to the job queue.";
}

// False: nothing more can come for this queue now.
bool Scheduler::plan_room(const JobQueue& queue, const Capacity& needs,
                          std::map<InstanceId, Capacity>& coming) {
  for (const std::string& name : queue.environments) {
    const auto found = state_.environments.find(name);
    if (found == state_.environments.end()) continue;
    const ComputeEnvironment& environment = found->second;
    const bool open = environment.managed && environment.enabled;
    if (!open || environment.condition == Condition::Deleting) continue;
    for (auto& [id, room] : coming) {
      if (state_.hosts.at(id).environment != name || !room.holds(needs)) continue;
      room -= needs;
      return true;
    }
    if (const Host* const host = launch(environment, needs)) {
      Capacity room = host->total;
      coming[host->id] = room -= needs;
      return true;
    }
  }
  return false;
}

// "Batch never exceeds maxvCpus by more than a single instance" (API_ComputeResource); BEST_FIT
// keeps to it.
bool Scheduler::may_grow(const ComputeEnvironment& environment, int vcpus) const {
  const int most = environment.number("maxvCpus");
  const int now = vcpus_of(environment.name);
  const std::string strategy = environment.resources.value("allocationStrategy", "BEST_FIT");
  return strategy == "BEST_FIT" ? now + vcpus <= most : now < most;
}

Host* Scheduler::launch(const ComputeEnvironment& environment, const Capacity& needs) {
  const auto types = expand_types(texts(environment.resources, "instanceTypes"));
  const TypeCapacity* smallest = nullptr;
  const auto size = [](const TypeCapacity& it) {
    return std::tuple(it.capacity.gpus, it.capacity.vcpus, it.capacity.memory);
  };
  for (const TypeCapacity& it : types) {
    if (!it.capacity.holds(needs)) continue;
    if (!smallest || size(it) < size(*smallest)) smallest = &it;
  }
  if (!smallest || needs.vcpus > environment.number("maxvCpus") ||
      !may_grow(environment, smallest->capacity.vcpus))
    return nullptr;
  const auto id = launch_instance(environment, smallest->type);
  if (!id) return nullptr;
  return &(state_.hosts[*id] = {
               .id = *id, .environment = environment.name, .total = smallest->capacity});
}

// In the subnets' zones in turn, so that hosts are spread.
std::optional<InstanceId> Scheduler::launch_instance(const ComputeEnvironment& environment,
                                                     const InstanceType& type) {
  const auto subnets = texts(environment.resources, "subnets");
  LaunchInstance request{.spot = environment.resources.value("type", "") == "SPOT"};
  request.option.image = environment.resources.value("imageId", "ami-0123456789abcdef0");
  request.option.type = type;
  request.option.profile = environment.resources.value("instanceRole", "");
  request.option.key_name = environment.resources.value("ec2KeyPair", "");
  if (const auto tags = environment.resources.find("tags"); tags != environment.resources.end()) {
    request.option.instance_tags = tags->get<Tags>();
  }
  request.option.instance_tags["AWSBatchServiceTag"] = "batch";
  request.option.security_groups = texts(environment.resources, "securityGroupIds");
  const int bid = environment.number("bidPercentage");  // of the on-demand price
  for (std::size_t i = 0; i < subnets.size(); ++i) {
    request.option.subnet = subnets[(state_.hosts.size() + i) % subnets.size()];
    request.option.zone = zone_of_subnet(state_.world.cloud(), request.option.subnet);
    if (bid > 0)
      request.option.max_price =
          std::to_string(usual_price(type, request.option.zone) * 3 * bid / 100);
    const auto launched = state_.world.instances(state_.now).launch(request);
    if (launched) return launched->id;
  }
  state_.schedule(state_.settings.capacity_retry, LookAgain{});
  return std::nullopt;
}

}  // namespace spotter::world::batch
