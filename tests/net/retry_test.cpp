#include "agent/aws/aws_client.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace spotter::act {
namespace {

using namespace std::chrono_literals;

Environment retrying_with(std::map<std::string, std::string, std::less<>> values) {
  values.emplace("HOME", "/nonexistent");
  return Environment(std::move(values));
}

TEST(Retry, IsTheStandardModeUnlessAskedOtherwise) {
  EXPECT_EQ(retry_policy(retrying_with({})).attempts, 3);
  EXPECT_EQ(retry_policy(retrying_with({{"AWS_MAX_ATTEMPTS", "7"}})).attempts, 7);
  EXPECT_EQ(retry_policy(retrying_with({{"AWS_MAX_ATTEMPTS", "1"}})).attempts, 1);
  for (const char* wrong : {"", "0", "-2", "many", "3x"})
    EXPECT_EQ(retry_policy(retrying_with({{"AWS_MAX_ATTEMPTS", wrong}})).attempts, 3) << wrong;
  EXPECT_EQ(retry_policy(retrying_with({{"AWS_RETRY_MODE", "adaptive"}})).attempts, 3);
}

TEST(Retry, ReadsTheProfileAfterTheEnvironment) {
  char folder[] = "/tmp/spotter-retry-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/config";
  std::ofstream(file) << "[default]\nmax_attempts = 5\n[profile other]\nmax_attempts = 6\n";
  const auto attempts = [&](std::map<std::string, std::string, std::less<>> values) {
    values.emplace("AWS_CONFIG_FILE", file);
    return retry_policy(with(std::move(values))).attempts;
  };
  EXPECT_EQ(attempts({}), 5);
  EXPECT_EQ(attempts({{"AWS_PROFILE", "other"}}), 6);
  EXPECT_EQ(attempts({{"AWS_MAX_ATTEMPTS", "2"}}), 2);
  std::filesystem::remove_all(folder);
}

// The delays of many draws: all below the bound, and not bunched below half of it.
void expect_full_jitter(RetryReason reason, int retry, Duration bound) {
  Backoff backoff(1), same(1);
  const RetryPolicy policy;
  Duration longest{0}, shortest = bound;
  for (int draw = 0; draw < 1000; ++draw) {
    const Duration delay = backoff.delay(policy, reason, retry);
    EXPECT_EQ(delay, same.delay(policy, reason, retry));
    longest = std::max(longest, delay);
    shortest = std::min(shortest, delay);
  }
  EXPECT_LE(longest, bound);
  EXPECT_GE(longest, bound * 9 / 10);
  EXPECT_LE(shortest, bound / 10);
}

TEST(Retry, DoublesTheRangeOfItsJitterUpToTwentySeconds) {
  expect_full_jitter(RetryReason::Transient, 0, 50ms);
  expect_full_jitter(RetryReason::Transient, 1, 100ms);
  expect_full_jitter(RetryReason::Throttled, 0, 1s);
  expect_full_jitter(RetryReason::Throttled, 3, 8s);
  expect_full_jitter(RetryReason::Throttled, 5, 20s);
  expect_full_jitter(RetryReason::Transient, 40, 20s);
}

TEST(Retry, HeedsTheServiceWithinReason) {
  const RetryPolicy policy;
  EXPECT_EQ(heed(policy, 300ms, ""), 300ms);
  EXPECT_EQ(heed(policy, 300ms, "soon"), 300ms);
  EXPECT_EQ(heed(policy, 300ms, "100"), 300ms);
  EXPECT_EQ(heed(policy, 300ms, "1500"), 1500ms);
  EXPECT_EQ(heed(policy, 300ms, "3600000"), 5300ms);
}

TEST(Retry, EmptiesItsBucketAndFillsItBySuccess) {
  for (const auto& [reason, retries] :
       {std::pair{RetryReason::Transient, 35}, std::pair{RetryReason::Throttled, 100}}) {
    RetryBucket bucket;
    const int cost = RetryBucket::cost(reason);
    int taken = 0;
    while (bucket.take(cost)) ++taken;
    EXPECT_EQ(taken, retries);
    EXPECT_FALSE(bucket.take(cost));
    bucket.give_back(cost);
    EXPECT_TRUE(bucket.take(cost));
    bucket.give_back(10'000);
    EXPECT_EQ(bucket.tokens(), RetryBucket::capacity);
  }
}

}  // namespace
}  // namespace spotter::act
