#include "agent/capacity/availability_history.hpp"

#include <cmath>

namespace spotter::capacity {

Spells::Spells(Prior available, Prior absent, double half_life)
    : available_{available.count, available.count * available.hours},
      absent_{absent.count, absent.count * absent.hours},
      half_life_(half_life) {}

Spells::Spells(Seen available, Seen absent, double half_life, bool now)
    : available_(available), absent_(absent), half_life_(half_life), now_(now), known_(true) {}

void Spells::see(bool available) {
  if (known_ && available != now_) (now_ ? available_ : absent_).ends += 1;
  now_ = available;
  known_ = true;
}

// Knowledge of outages fades only in outages: capacity that is never lost teaches nothing of them.
void Spells::pass(double hours) {
  if (!known_) return;
  Seen& sum = now_ ? available_ : absent_;
  const double kept = std::exp2(-hours / half_life_);
  sum = {sum.ends * kept, sum.hours * kept + hours};
}

}  // namespace spotter::capacity
