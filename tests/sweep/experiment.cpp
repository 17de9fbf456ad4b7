// The experiment that a process runs.
#include "agent/config/experiment.hpp"

#include <gtest/gtest.h>

#include <map>

namespace spotter::command {
namespace {

using Variables = std::map<std::string, std::string>;

struct Chosen {
  config::Job job;
  std::string error;
};

Chosen choose(const Variables& variables, std::size_t sets = 3) {
  Chosen chosen;
  chosen.job.sweep.emplace();
  chosen.job.trainer.command = "train --lr={lr}";
  const auto done = with_experiment(
      chosen.job, {.variables = variables},
      [&](const config::Job&) -> Result<std::vector<sweep::Set>, config::Problem> {
        std::vector<sweep::Set> all;
        for (std::size_t i = 0; i < sets; ++i)
          all.push_back({{"lr", "0." + std::to_string(i), "0." + std::to_string(i)}});
        return all;
      });
  if (!done) return {{}, done.error().front().message};
  return {*done, ""};
}

TEST(Experiment, IsThatOfTheArray) {
  const auto chosen =
      choose({{"AWS_BATCH_JOB_ARRAY_INDEX", "2"}, {"AWS_BATCH_JOB_ARRAY_SIZE", "3"}});
  EXPECT_EQ(chosen.error, "");
  EXPECT_EQ(chosen.job.trainer.command, "train --lr=0.2");
  ASSERT_TRUE(chosen.job.experiment);
  EXPECT_EQ(chosen.job.experiment->index, 2U);
  EXPECT_EQ(chosen.job.storage.ebs.tag.value, ":2");
  EXPECT_EQ(choose({{"SLURM_ARRAY_TASK_ID", "1"}}).job.trainer.command, "train --lr=0.1");
  EXPECT_EQ(choose({{"JOB_COMPLETION_INDEX", "0"}}).job.trainer.command, "train --lr=0.0");
}

TEST(Experiment, IsTheOneThatIsSaid) {
  const auto chosen = choose({{"SPOTTER_EXPERIMENT", "1"}, {"AWS_BATCH_JOB_ARRAY_INDEX", "2"}});
  EXPECT_EQ(chosen.job.trainer.command, "train --lr=0.1");
}

TEST(Experiment, OfSlurmMayBeOneOfFew) {
  EXPECT_EQ(choose({{"SLURM_ARRAY_TASK_ID", "2"}, {"SLURM_ARRAY_TASK_COUNT", "2"}}).error, "");
}

TEST(Experiment, ThatIsNoneIsExplained) {
  EXPECT_NE(choose({}).error.find("nothing says which experiment this is"), std::string::npos);
  EXPECT_EQ(choose({{"SPOTTER_EXPERIMENT", "3"}}).error,
            "SPOTTER_EXPERIMENT=3, but the sweep's list has 3 sets, counted from 0");
  EXPECT_EQ(choose({{"SPOTTER_EXPERIMENT", "x"}}).error, "SPOTTER_EXPERIMENT='x' is no number");
  EXPECT_EQ(choose({{"AWS_BATCH_JOB_ARRAY_INDEX", "1"}, {"AWS_BATCH_JOB_ARRAY_SIZE", "4"}}).error,
            "the array has 4 jobs, but the sweep's list has 3 sets: submit one of that size");
}

TEST(Experiment, OfASweepThatStopsEarlyIsClaimed) {
  config::Job job;
  job.sweep.emplace().stop.emplace();
  job.claims.emplace();
  const auto choose_with = [&](const Variables& variables) {
    return with_experiment(job, {.variables = variables},
                           [](const config::Job&) { return std::vector<sweep::Set>(3); });
  };
  const auto of_array =
      choose_with({{"AWS_BATCH_JOB_ARRAY_INDEX", "2"}, {"AWS_BATCH_JOB_ARRAY_SIZE", "3"}});
  ASSERT_FALSE(of_array);
  EXPECT_NE(of_array.error().front().message.find("remove sweep.stop"), std::string::npos);
  const auto claimed =
      choose_with({{"SPOTTER_EXPERIMENT", "2"}, {"SPOTTER_ATTEMPT", "attempt-12"}});
  ASSERT_TRUE(claimed);
  EXPECT_EQ(claimed->token, 12U);
}

TEST(Experiment, OfAJobWithoutASweepIsNone) {
  const auto done = with_experiment(
      config::Job(), {.variables = {{"SPOTTER_EXPERIMENT", "1"}, {"SPOTTER_ATTEMPT", "1"}}},
      [](const config::Job&) -> Result<std::vector<sweep::Set>, config::Problem> {
        return tl::unexpected(config::Problem{});
      });
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->experiment);
}

TEST(Experiment, OfAListThatIsNotToBeHadNowIsToBeTriedAgain) {
  for (const bool passing : {false, true}) {
    config::Job job;
    job.sweep.emplace();
    const auto done = with_experiment(
        job, {.variables = {{"SPOTTER_EXPERIMENT", "0"}}},
        [&](const config::Job&) -> Result<std::vector<sweep::Set>, config::Problem> {
          return tl::unexpected(config::Problem{.message = "503", .passing = passing});
        });
    ASSERT_FALSE(done);
    ASSERT_EQ(done.error().size(), 1U);
    EXPECT_EQ(done.error()[0].message, "503");
    EXPECT_EQ(done.error()[0].passing, passing);
  }
}

}  // namespace
}  // namespace spotter::command
