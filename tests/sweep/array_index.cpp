#include "agent/config/array_index.hpp"

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

TEST(ArrayIndex, IsThatOfTheSetWhereAJobHasNotAllOfThem) {
  const std::map<std::string, std::string> some{{"AWS_BATCH_JOB_ARRAY_INDEX", "2"},
                                                {"AWS_BATCH_JOB_ARRAY_SIZE", "4"},
                                                {"SPOTTER_SWEEP_INDICES", "3,17-19/50"}};
  const auto found = index_of(some).value();
  ASSERT_TRUE(found && found->part);
  EXPECT_EQ(found->index, 18U);
  EXPECT_EQ(found->part->number, 18U);
  EXPECT_EQ(found->part->of, 50U);
  EXPECT_EQ(index_of({{"SPOTTER_SWEEP_INDICES", "7/50"}}).value()->index, 7U);
  EXPECT_FALSE(index_of({{"SPOTTER_SWEEP_INDICES", "7-8/50"}})) << "which of the two?";
  EXPECT_FALSE(index_of({{"AWS_BATCH_JOB_ARRAY_INDEX", "1"}, {"SPOTTER_SWEEP_INDICES", "7/50"}}));
}

TEST(IndexList, IsWrittenAndReadAgain) {
  const IndexList list{{0, 1, 2, 5, 7, 8}, 10};
  EXPECT_EQ(to_text(list), "0-2,5,7-8/10");
  EXPECT_EQ(parse_index_list(to_text(list))->indices, list.indices);
  for (const char* wrong : {"", "/", "1", "1/", "/3", "3/3", "2-1/5", "1,1/5", "2,1/5", "1-/5",
                            "a/5", "1/0", "0/10001", "0-18446744073709551615/9", "1,/5"})
    EXPECT_FALSE(parse_index_list(wrong)) << wrong;
}

}  // namespace
}  // namespace spotter::sweep
