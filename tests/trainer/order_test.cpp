// The order of the examples: a permutation, another one each epoch, and the same on every machine.
#include "trainer/reference/feed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace spotter::train {
namespace {

TEST(Order, IsAPermutation) {
  auto order = epoch_order(1, 0, 1000);
  std::sort(order.begin(), order.end());
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(order[i], i);
}

TEST(Order, DiffersByEpochAndSeedAndRepeatsForTheSame) {
  EXPECT_EQ(epoch_order(1, 3, 100), epoch_order(1, 3, 100));
  EXPECT_NE(epoch_order(1, 3, 100), epoch_order(1, 4, 100));
  EXPECT_NE(epoch_order(1, 3, 100), epoch_order(2, 3, 100));
}

// Should this change, no older checkpoint resumes to the bit.
TEST(Order, IsTheSameForEver) {
  EXPECT_EQ(epoch_order(1, 0, 8), (std::vector<std::uint32_t>{0, 2, 6, 7, 4, 5, 1, 3}));
}

TEST(Order, PurposesAndNumbersShareNoSequence) {
  std::set<std::uint64_t> seeds;
  for (const auto purpose : {Purpose::Weights, Purpose::Order, Purpose::Dropout}) {
    for (std::uint64_t number = 0; number < 1000; ++number) {
      seeds.insert(sequence_seed(1, purpose, number));
    }
  }
  EXPECT_EQ(seeds.size(), 3000U);
}

}  // namespace
}  // namespace spotter::train
