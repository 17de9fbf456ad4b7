// The policies that are computed: AWS's script, periodic checkpoints, and the oracle.
#include <algorithm>
#include <stdexcept>

#include "tests/simulate/market.hpp"

namespace spotter::simulate {
namespace {

// The job's standing between two instances.
struct Standing {
  double durable = 0;   // seconds of work that survive
  double position = 0;  // reached
  double changed = 0;   // gigabytes written since the last snapshot
  std::size_t zone = 0;
  double before = 0;  // when the last instance ended
};

struct Rules {
  double every = 0;  // between checkpoints; 0: only at the very end of an instance
  double stall = 0;  // training stands still for it
  double write = 0;  // until durable, after the stall
  bool oracle = false;
};

Rules rules_of(MarketPolicy policy, const MarketModel& model) {
  const double stall = model.checkpoint / model.memory_copy;
  const double write = model.checkpoint / model.disk;
  if (policy == MarketPolicy::Aws) return {model.epoch, write, 0, false};
  if (policy == MarketPolicy::Periodic) return {model.period, stall, write, false};
  return {0, stall, write, true};
}

// When the first step is made on this instance.
double ready_at(const Segment& segment, Standing& standing, const Rules& rules,
                const MarketModel& model) {
  double at = segment.begin + segment.boot;
  double reads = model.disk;
  if (segment.zone != standing.zone) {
    // Both keep their last snapshot, so that only changes are copied. The oracle has it made the
    // moment before the instance goes; the others when the next one needs it.
    const double changed = rules.oracle ? model.checkpoint : standing.changed;
    const double takes = model.snapshot_least + changed / model.snapshot_rate;
    at = rules.oracle ? std::max(at, standing.before + takes) : at + takes;
    if (at < segment.end) standing.changed = 0;
    at += model.make_volume;
    if (at < segment.end) standing.zone = segment.zone;  // else it is tried again by the next
    reads = model.lazy;
  }
  at += model.attach + model.mount;
  if (standing.durable > 0) at += model.checkpoint / reads;
  return at + model.trainer_start;
}

// Trains from `at` on. True: the job is finished, at `at`.
bool train(double& at, const Segment& segment, Standing& standing, const Rules& rules,
           const MarketModel& model) {
  while (at < segment.end) {
    const double room = segment.end - at - rules.stall - rules.write;
    const double left = model.work - standing.position;
    double run = rules.every > 0 ? std::min(rules.every, left) : std::min(left, room);
    if (rules.oracle && run <= 0) return false;  // knows that nothing can be saved any more
    if (at + run >= segment.end) {
      standing.position += segment.end - at;
      return false;
    }
    standing.position += run;
    at += run + rules.stall;
    const double durable_at = at + rules.write;
    if (durable_at > segment.end) {
      standing.position += std::max(0.0, segment.end - at);
      return false;
    }
    standing.changed =
        std::min(standing.changed + model.checkpoint, model.data + 3 * model.checkpoint);
    standing.durable = standing.position;
    if (standing.durable >= model.work) {
      at = durable_at;
      return true;
    }
    if (rules.oracle) return false;
  }
  return false;
}

}  // namespace

Outcome play_policy(MarketPolicy policy, const Market& market, const MarketModel& model) {
  const Rules rules = rules_of(policy, model);
  Standing standing;
  standing.changed = model.data;
  Outcome outcome;
  double paid = 0;
  for (const Segment& segment : market.segments) {
    outcome.steps_repeated += standing.position - standing.durable;
    standing.position = standing.durable;
    double at = ready_at(segment, standing, rules, model);
    const bool finished = at < segment.end && train(at, segment, standing, rules, model);
    const double end = finished ? at : segment.end;
    paid += end - segment.begin;
    outcome.cost += (end - segment.begin) / 3600 * market.prices[segment.zone];
    standing.before = segment.end;
    if (!finished) continue;
    outcome.hours = end / 3600;
    outcome.goodput = model.work / paid;
    const double stored = model.data + 3 * model.checkpoint;
    outcome.cost += outcome.hours / 730 * stored * (model.volume_dollars + model.snapshot_dollars);
    return outcome;
  }
  throw std::runtime_error("the market ends before the job");
}

}  // namespace spotter::simulate
