#include "agent/aws/retry.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "agent/aws/settings/shared_config.hpp"

namespace spotter::act {
namespace {

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

RetryPolicy retry_policy(const Environment& environment) {
  Profile profile = config_profile(environment);
  const auto setting = [&](const char* variable, const char* key) {
    const std::string set = environment.get(variable);
    return set.empty() ? profile[key] : set;
  };
  RetryPolicy policy;
  const std::string attempts = setting("AWS_MAX_ATTEMPTS", "max_attempts");
  if (const auto given = number(attempts); given && *given > 0) {
    policy.attempts = *given;
  } else if (!attempts.empty()) {
    spdlog::warn("AWS_MAX_ATTEMPTS: '{}' is no number above 0; {} is used", attempts,
                 policy.attempts);
  }
  const std::string mode = setting("AWS_RETRY_MODE", "retry_mode");
  if (!mode.empty() && mode != "standard") {
    spdlog::warn("AWS_RETRY_MODE: calls are retried as in the mode `standard`, not `{}`", mode);
  }
  return policy;
}

int RetryBucket::cost(RetryReason reason) {
  return reason == RetryReason::Throttled ? throttled_cost : transient_cost;
}

bool RetryBucket::take(int cost) {
  if (tokens_ < cost) return false;
  tokens_ -= cost;
  return true;
}

void RetryBucket::give_back(int amount) { tokens_ = std::min(capacity, tokens_ + amount); }

Duration Backoff::delay(const RetryPolicy& policy, RetryReason reason, int retry) {
  const bool throttled = reason == RetryReason::Throttled;
  const Duration base = throttled ? policy.throttled_base : policy.transient_base;
  const int doublings = std::clamp(retry, 0, 20);  // 2^20 is beyond every ceiling
  const Duration highest = std::min(policy.ceiling, base * (1 << doublings));
  return Duration(std::uniform_int_distribution<Duration::rep>(0, highest.count())(random_));
}

Duration heed(const RetryPolicy& policy, Duration delay, std::string_view retry_after) {
  const auto asked = number(retry_after);
  if (!asked) return delay;
  return std::clamp(Duration(*asked), delay, delay + policy.longest_hint);
}

}  // namespace spotter::act
