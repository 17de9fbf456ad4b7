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

CallError failed(CallError::Kind kind, const char* retry_after = "") {
  return {.kind = kind, .retry_after = retry_after};
}

// The pauses of many draws: all below the bound, and not bunched below half of it.
void expect_full_jitter(CallError::Kind kind, int retry, Duration bound) {
  std::mt19937_64 random(1), same(1);
  const RetryPolicy policy;
  Duration longest{0}, shortest = bound;
  for (int draw = 0; draw < 1000; ++draw) {
    const Duration pause = pause_before(policy, failed(kind), retry, random);
    EXPECT_EQ(pause, pause_before(policy, failed(kind), retry, same));
    longest = std::max(longest, pause);
    shortest = std::min(shortest, pause);
  }
  EXPECT_LE(longest, bound);
  EXPECT_GE(longest, bound * 9 / 10);
  EXPECT_LE(shortest, bound / 10);
}

TEST(Retry, DoublesTheRangeOfItsJitterUpToTwentySeconds) {
  expect_full_jitter(CallError::Kind::Transient, 0, 50ms);
  expect_full_jitter(CallError::Kind::NotSent, 1, 100ms);
  expect_full_jitter(CallError::Kind::Throttled, 0, 1s);
  expect_full_jitter(CallError::Kind::Throttled, 3, 8s);
  expect_full_jitter(CallError::Kind::Throttled, 5, 20s);
  expect_full_jitter(CallError::Kind::Transient, 40, 20s);
}

TEST(Retry, HeedsTheServiceWithinReason) {
  const auto pause = [](const char* retry_after) {
    std::mt19937_64 random(1);
    return pause_before({}, failed(CallError::Kind::Throttled, retry_after), 0, random);
  };
  const Duration own = pause("");
  EXPECT_LE(own, 1s);
  EXPECT_EQ(pause("soon"), own);
  EXPECT_EQ(pause("0"), own);
  EXPECT_EQ(pause("1500"), 1500ms);
  EXPECT_EQ(pause("3600000"), own + 5s);
}

}  // namespace
}  // namespace spotter::act
