#include "agent/sweep/array_index.hpp"

#include <gtest/gtest.h>

#include <map>

namespace spotter::sweep {
namespace {

auto index_of(const std::map<std::string, std::string>& variables) {
  return array_index([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

TEST(ArrayIndex, IsThatOfTheEngine) {
  EXPECT_EQ(index_of({{"AWS_BATCH_JOB_ARRAY_INDEX", "4"}}).value()->index, 4U);
  EXPECT_EQ(index_of({{"JOB_COMPLETION_INDEX", "0"}}).value()->index, 0U);
  EXPECT_FALSE(index_of({}).value());
  EXPECT_FALSE(index_of({{"AWS_BATCH_JOB_ARRAY_INDEX", ""}}).value());
  EXPECT_EQ(index_of({{"SLURM_ARRAY_TASK_ID", "x"}}).error().message,
            "SLURM_ARRAY_TASK_ID='x' is no number");
}

TEST(ArrayIndex, OfSlurmIsTheUsersAndItsPartCountsFromZero) {
  const auto found = index_of({{"SLURM_ARRAY_TASK_ID", "9"},
                               {"SLURM_ARRAY_TASK_MIN", "3"},
                               {"SLURM_ARRAY_TASK_STEP", "2"},
                               {"SLURM_ARRAY_TASK_COUNT", "4"}})
                         .value();
  EXPECT_EQ(found->index, 9U);
  ASSERT_TRUE(found->part);
  EXPECT_EQ(found->part->number, 3U);
  EXPECT_EQ(found->part->of, 4U);
}

TEST(ArrayIndex, HasNoPartOfAnUnknownOrAWrongCount) {
  EXPECT_FALSE(index_of({{"JOB_COMPLETION_INDEX", "1"}}).value()->part);
  EXPECT_FALSE(index_of({{"AWS_BATCH_JOB_ARRAY_INDEX", "2"}, {"AWS_BATCH_JOB_ARRAY_SIZE", "2"}})
                   .value()
                   ->part);
}

}  // namespace
}  // namespace spotter::sweep
