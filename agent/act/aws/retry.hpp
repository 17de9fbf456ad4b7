// The AWS SDKs' standard retry mode as values: no clock, no sleep.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
#pragma once

#include <cstdint>
#include <random>

#include "agent/decide/names.hpp"

namespace spotter::act {

struct RetryPolicy {
  int attempts = 4;          // the SDKs' 3, and one for EC2's throttling, which comes in bursts
  Duration base{200};        // EC2's throttle refills within a second; jitter spreads the rest
  Duration ceiling{20'000};  // as the SDKs have it
};

// Stops a client from hammering a service that is down: every retry takes from the bucket, every
// success gives a little back.
class RetryBucket {
 public:
  static constexpr int capacity = 500;
  static constexpr int retry_cost = 5;
  static constexpr int timeout_cost = 10;
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
  Duration delay(const RetryPolicy& policy, int retry);

 private:
  std::mt19937_64 random_;
};

}  // namespace spotter::act
