// What the end of an agent comes to: pure readings of its last facts.
#pragma once

#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter {

// Of `spotter run`, a worker's experiment (`of_worker`) and `spotter prepare`, as agent.hpp says;
// the service's is 0. `trainer_status`: of the last trainer that ended by itself.
int exit_status(const decide::Policy& policy, const decide::Facts& facts, bool of_worker,
                int trainer_status);

// What others are still to be told may take some seconds, unless the machine ends before.
Duration for_last_words(const decide::Facts& facts, Time now);

// A notice came before anything was begun, and nothing else ends the agent.
bool was_interrupted_idle(const decide::Facts& facts);

}  // namespace spotter
