#include "agent/act/aws/retry.hpp"

#include <algorithm>

namespace spotter::act {

bool RetryBucket::take(int cost) {
  if (tokens_ < cost) return false;
  tokens_ -= cost;
  return true;
}

void RetryBucket::give_back(int amount) { tokens_ = std::min(capacity, tokens_ + amount); }

Duration Backoff::delay(const RetryPolicy& policy, int retry) {
  const int doublings = std::clamp(retry, 0, 20);  // 2^20 is beyond every ceiling
  const Duration highest = std::min(policy.ceiling, policy.base * (1 << doublings));
  return Duration(std::uniform_int_distribution<Duration::rep>(0, highest.count())(random_));
}

}  // namespace spotter::act
