// The AWS SDKs' standard retry mode as values: no clock, no sleep. Of 2026: transient errors are
// retried soon, throttling after a second; a retry of a transient error costs more of the quota.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
// The limits of a single HTTP call are here and not in decide/policy.hpp: the core knows of a call
// only how long it may take in all (Policy::ec2_call).
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string_view>

#include "agent/aws/settings/environment.hpp"
#include "agent/base/names.hpp"

namespace spotter::act {

struct RetryPolicy {
  int attempts = 3;               // AWS_MAX_ATTEMPTS, or max_attempts of the profile
  Duration transient_base{50};    // the service's own trouble is mostly one machine's: try another
  Duration throttled_base{1000};  // EC2's buckets refill by the second
  Duration ceiling{20'000};
  // What a service asks for (x-amz-retry-after) is heeded up to so much beyond our own delay.
  Duration longest_hint{5'000};
  // One attempt of a call that may be repeated: leaves time for another within 30 s.
  Duration longest_attempt{12'000};
  // AWS accepts five minutes of skew; what is less than a minute is the network's.
  std::chrono::seconds tolerated_skew{60};
};

// By AWS_MAX_ATTEMPTS and AWS_RETRY_MODE, else by max_attempts and retry_mode of the profile in
// ~/.aws/config. What is no number above 0 counts as not given. Modes other than standard are not
// known here: a word in the log, and the standard one.
RetryPolicy retry_policy(const Environment& environment);

enum class RetryReason : std::uint8_t { Transient, Throttled };

// Stops a client from hammering a service that is down: every retry takes from the bucket, success
// gives back what the last retry took, or a little.
class RetryBucket {
 public:
  static constexpr int capacity = 500;
  static constexpr int transient_cost = 14;
  static constexpr int throttled_cost = 5;
  static constexpr int reward = 1;  // of a success without a retry
  static int cost(RetryReason reason);
  bool take(int cost);
  void give_back(int amount);
  int tokens() const { return tokens_; }

 private:
  int tokens_ = capacity;
};

// Full jitter: uniform in [0, min(ceiling, base * 2^retry)], retry counting from 0.
class Backoff {
 public:
  explicit Backoff(std::uint64_t seed) : random_(seed) {}
  Duration delay(const RetryPolicy& policy, RetryReason reason, int retry);

 private:
  std::mt19937_64 random_;
};

// `delay`, or what the header x-amz-retry-after (milliseconds) asks for within reason.
Duration heed(const RetryPolicy& policy, Duration delay, std::string_view retry_after);

}  // namespace spotter::act
