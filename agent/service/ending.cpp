#include "agent/service/ending.hpp"

#include <sysexits.h>

#include <algorithm>

#include "agent/aws/formats/batch_values.hpp"

namespace spotter {

int exit_status(const decide::Policy& policy, const decide::Facts& facts, bool of_worker,
                int trainer_status) {
  if (!policy.once) return 0;
  if (policy.fills) {
    if (facts.filled) return 0;
    return facts.leave || facts.notice ? wire::interrupted_exit_code : 1;
  }
  if (facts.done) return 0;
  if (facts.unfit && of_worker) return EX_UNAVAILABLE;
  if (facts.surrender == decide::Surrender::None) return wire::interrupted_exit_code;
  // Exit status 0 without the result is a failure all the same. A worker takes 2 and 75 for ours.
  const bool failed = facts.surrender == decide::Surrender::NoProgress && !of_worker;
  return failed && trainer_status != 0 ? trainer_status : 1;
}

Duration for_last_words(const decide::Facts& facts, Time now) {
  constexpr Duration most{5'000}, least{1'000};
  if (!facts.notice) return most;
  return std::clamp(facts.notice->deadline - now - least, least, most);
}

bool was_interrupted_idle(const decide::Facts& facts) {
  const bool began = facts.started_at != decide::kNever;
  return facts.notice && !began && !facts.leave && !facts.done;
}

}  // namespace spotter
