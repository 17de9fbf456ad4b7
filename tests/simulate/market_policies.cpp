// The policies that are computed: AWS's script, periodic checkpoints, and the oracle.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "agent/decide/pace.hpp"
#include "agent/host/cold.hpp"
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
  double rates = 0;   // dollars that they cost
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

// A copy from its creation on, read as a script does: one request after the other. The oracle reads
// as Spotter does, and pays for a rate where Spotter would.
double reads_copy(Standing& standing, const Rules& rules, double dollars,
                  const MarketModel& model) {
  world::Volume copy;
  copy.cold = world::ColdBlocks{.request = (model.cold.request_least + model.cold.request_most) / 2,
                                .gibibytes = model.gibibytes()};
  if (!rules.oracle)
    return seconds_of(first_read(copy, model.cold, mebibytes(model.checkpoint), 1, {}));
  copy.initialization_rate =
      static_cast<int>(decide::initialization_rate(dollars, model.gibibytes(), {}));
  standing.rates +=
      price_of_rate(model.cold, *copy.initialization_rate, static_cast<double>(model.gibibytes()));
  if (*copy.initialization_rate == 0) copy.initialization_rate.reset();
  return seconds_of(first_read(copy, model.cold, mebibytes(model.checkpoint),
                               act::host::reads_at_once,
                               of_seconds(model.make_volume + model.attach + model.mount)));
}

// When the first step is made on this instance.
double ready_at(const Segment& segment, Standing& standing, const Rules& rules, double dollars,
                const MarketModel& model) {
  double at = segment.begin + segment.boot;
  double reads = model.checkpoint / model.disk;
  if (segment.zone != standing.zone) {
    // Both keep their last snapshot, so that only changes are copied. The oracle has it made the
    // moment before the instance goes; the others when the next one needs it.
    const double changed = rules.oracle ? model.checkpoint : standing.changed;
    const double takes = model.snapshot_least + changed / model.snapshot_rate;
    at = rules.oracle ? std::max(at, standing.before + takes) : at + takes;
    if (at < segment.end) standing.changed = 0;
    at += model.make_volume;
    if (at < segment.end) standing.zone = segment.zone;  // else it is tried again by the next
    reads = at < segment.end ? reads_copy(standing, rules, dollars, model) : 0;
  }
  at += model.attach + model.mount;
  if (standing.durable > 0) at += reads;
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
    standing.changed = std::min(standing.changed + model.checkpoint, model.stored());
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

std::uint64_t MarketModel::gibibytes() const {
  return static_cast<std::uint64_t>(std::ceil(mebibytes(stored()) / 1024));
}

Outcome play_policy(MarketPolicy policy, const Market& market, const MarketModel& model) {
  const Rules rules = rules_of(policy, model);
  Standing standing;
  standing.changed = model.data;
  Outcome outcome;
  double paid = 0;
  for (const Segment& segment : market.segments) {
    outcome.steps_repeated += standing.position - standing.durable;
    standing.position = standing.durable;
    double at = ready_at(segment, standing, rules, market.prices[segment.zone], model);
    const bool finished = at < segment.end && train(at, segment, standing, rules, model);
    const double end = finished ? at : segment.end;
    paid += end - segment.begin;
    outcome.cost += (end - segment.begin) / 3600 * market.prices[segment.zone];
    standing.before = segment.end;
    if (!finished) continue;
    outcome.hours = end / 3600;
    outcome.goodput = model.work / paid;
    outcome.cost +=
        outcome.hours / 730 * model.stored() * (model.volume_dollars + model.snapshot_dollars);
    outcome.cost += outcome.rates = standing.rates;
    return outcome;
  }
  throw std::runtime_error("the market ends before the job");
}

}  // namespace spotter::simulate
