#include "agent/decide/pace.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace spotter::decide {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kNewestWeighs = 0.3;  // in the stall's average, of which half is the last two

double share_unannounced(const Ledger& ledger, const Policy& policy) {
  const double seen = 1 + ledger.losses;
  return seen / (seen + ledger.releases + (1 / policy.unannounced - 1));
}

// The time between two interruptions of whatever kind: observed time and
// interruptions, with the policy's prior as if one had been seen already.
Duration time_between_interruptions(const Ledger& ledger, const Policy& policy) {
  const Seconds seen = Seconds(policy.between_interruptions) + Seconds(ledger.seconds);
  return std::chrono::round<Duration>(seen / (1.0 + ledger.losses + ledger.releases));
}

// The mean time between two ends that lose work: instances gone without notice, crashes. (An
// announced interruption lets the last checkpoint be written: it costs no step.) Likewise.
Duration time_between_losses(const Ledger& ledger, const Policy& policy) {
  const Seconds prior = time_between_interruptions({}, policy) / policy.unannounced;
  return std::chrono::round<Duration>((prior + Seconds(ledger.seconds)) / (1.0 + ledger.losses));
}

}  // namespace

Duration daly_interval(Duration stall, Duration between_losses) {
  assert(stall > Duration::zero() && between_losses > Duration::zero());
  if (stall >= 2 * between_losses) return between_losses;
  const double cost = Seconds(stall).count();
  const double half = cost / (2 * Seconds(between_losses).count());
  const double young = std::sqrt(2 * cost * Seconds(between_losses).count());
  return std::chrono::round<Duration>(Seconds(young * (1 + std::sqrt(half) / 3 + half / 9) - cost));
}

Duration checkpoint_every(const Ledger& ledger, const Policy& policy) {
  const Duration known = std::chrono::round<Duration>(Seconds(ledger.stall));
  const Duration stall = known > Duration::zero() ? known : policy.checkpoint_stall;
  return std::clamp(daly_interval(stall, time_between_losses(ledger, policy)),
                    policy.checkpoint_least, policy.checkpoint_most);
}

Duration next_upload(Duration last) { return last + last / 4; }

void learn_stall(Ledger& ledger, Duration stall) {
  if (stall <= Duration::zero()) return;
  const double seen = Seconds(stall).count();
  ledger.stalled += seen;
  ledger.stall =
      ledger.stall > 0 ? ledger.stall * (1 - kNewestWeighs) + seen * kNewestWeighs : seen;
}

bool hint_pays(const Ledger& ledger, Duration at_risk, const Policy& policy) {
  const double price = ledger.stall > 0 ? ledger.stall : Seconds(policy.checkpoint_stall).count();
  const double gain =
      policy.hint_followed * share_unannounced(ledger, policy) * Seconds(at_risk).count();
  return gain > price;
}

bool snapshots_pay(const Ledger& ledger, double dollars_per_hour, const Policy& policy) {
  if (dollars_per_hour <= 0) return true;
  const Seconds between = time_between_interruptions(ledger, policy);
  const double moves_an_hour = policy.moves * Seconds(hours(1)).count() / between.count();
  const double hours_saved = policy.copy_of_gigabyte.count() / Seconds(hours(1)).count();
  constexpr double kHoursOfMonth = 730;
  const double price_an_hour = policy.snapshot_dollars / kHoursOfMonth;
  return moves_an_hour * hours_saved * dollars_per_hour > price_an_hour;
}

std::uint32_t initialization_rate(double dollars_per_hour, std::uint64_t gibibytes,
                                  const Policy& policy) {
  if (policy.initialization_rate) return *policy.initialization_rate;
  const double dollars = std::max(0.0, dollars_per_hour) / 3600;  // a second
  const double waits = 1024 * policy.share_awaited;               // MiB of each GiB
  // Here the derivative of gain less price is zero.
  const double best = std::clamp(std::sqrt(waits * dollars / policy.rate_dollars), 100.0, 300.0);
  const double saved = static_cast<double>(gibibytes) * waits * (1 / policy.cold_rate - 1 / best);
  const auto rate = static_cast<std::uint32_t>(best);
  const double gain = std::min(saved, Seconds(policy.load_most).count()) * dollars;
  return gain > price_of_rate(rate, gibibytes, policy) ? rate : 0;
}

double price_of_rate(std::uint32_t rate, std::uint64_t gibibytes, const Policy& policy) {
  return policy.rate_dollars * rate * static_cast<double>(gibibytes);
}

}  // namespace spotter::decide
