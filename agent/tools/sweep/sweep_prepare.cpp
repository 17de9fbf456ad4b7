// Makes what a sweep's jobs need on AWS Batch if it is missing, and updates it if it differs.
#include <chrono>
#include <cstdio>
#include <thread>

#include "agent/tools/sweep/sweep_batch.hpp"

namespace spotter::command {
namespace {

using Clock = std::chrono::steady_clock;
// A new environment takes seconds, one that replaces its instances minutes.
constexpr std::chrono::minutes patience{10};
constexpr std::chrono::milliseconds first_pause{200};
constexpr std::chrono::milliseconds longest_pause{5'000};

void say(const std::string& what, const std::string& name, const char* how) {
  std::fprintf(stderr, "%s %s: %s\n", what.c_str(), name.c_str(), how);
}

// The calls for one kind: an environment or a queue.
template <class Wanted>
struct Kind {
  const char* what;
  wire::BatchCall (*describe)(const std::string& name);
  Result<std::optional<wire::BatchResource>> (*decode)(std::string_view, const Wanted&);
};

using Found = std::optional<wire::BatchResource>;

template <class Wanted>
Result<Found, CallError> look(AwsCalls& calls, const Kind<Wanted>& kind, const Wanted& wanted) {
  return calls.ask(kind.describe(wanted.name), kind.decode, wanted);
}

// Waits until AWS Batch no longer changes it. One that does not exist is settled, too.
template <class Wanted>
Result<Found, CallError> settled(AwsCalls& calls, const Kind<Wanted>& kind, const Wanted& wanted) {
  const auto until = Clock::now() + patience;
  auto pause = first_pause;
  while (true) {
    auto found = look(calls, kind, wanted);
    if (!found || !*found || (*found)->status == "VALID") return found;
    const std::string name = std::string(kind.what) + " " + wanted.name;
    if ((*found)->status == "INVALID") return failed(name + " is INVALID: " + (*found)->reason);
    if (Clock::now() > until)
      return failed(name + " is still " + (*found)->status + ": " + (*found)->reason);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
}

// A lost answer does not matter: the state is read again.
Result<void, CallError> change(AwsCalls& calls, const wire::BatchCall& call) {
  const auto done = calls.perform(call);
  if (done || done.error().unsettled()) return {};
  return tl::unexpected(done.error());
}

template <class Wanted>
Result<void, CallError> provide(AwsCalls& calls, const Kind<Wanted>& kind, const Wanted& wanted) {
  constexpr int most_changes = 2;
  for (int changes = 0;; ++changes) {
    const auto found = settled(calls, kind, wanted);
    if (!found) return tl::unexpected(found.error());
    const std::string what = std::string(kind.what) + " " + wanted.name;
    const auto foreign = *found ? namesake(what, (*found)->tags, wanted.tags) : std::string();
    if (!foreign.empty()) return failed(foreign);
    if (*found && (*found)->differs.empty()) return {};
    if (changes == most_changes)
      return failed(what +
                    " does not become what sweep.batch says; some of it cannot be changed: "
                    "delete it, or give another name");
    say(kind.what, wanted.name, *found ? "is changed" : "is made");
    const auto done = change(calls, *found ? wire::update(wanted, **found) : wire::create(wanted));
    if (!done) return done;
  }
}

}  // namespace

Result<std::string, CallError> prepare(AwsCalls& calls, const BatchSweep& sweep) {
  const auto& [environment, queue, definition] = sweep.batch;
  const Kind<wire::BatchEnvironment> environments{"compute environment", wire::describe_environment,
                                                  wire::decode_environment};
  if (auto there = provide(calls, environments, environment); !there)
    return tl::unexpected(there.error());
  const Kind<wire::BatchQueue> queues{"job queue", wire::describe_queue, wire::decode_queue};
  if (auto there = provide(calls, queues, queue); !there) return tl::unexpected(there.error());
  const auto same =
      calls.ask(wire::describe_definitions(definition.name), wire::decode_definition, definition);
  if (!same || !same->empty()) return same;
  say("job definition", definition.name, "a revision is registered");
  return calls.ask(wire::register_definition(definition), wire::decode_registered);
}

}  // namespace spotter::command
