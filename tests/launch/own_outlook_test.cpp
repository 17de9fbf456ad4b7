// A job with a deadline, as the agent of its instance knows it by itself.
#include <gtest/gtest.h>

#include "agent/launch/deadline.hpp"

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;
using Trouble = Outlook::Trouble;

const wire::WallTime begin(1'764'000'000s);  // 2025-11-24T16:00:00Z

config::Deadline due_in(Duration time) {
  config::Deadline deadline;
  deadline.work = 10h;
  deadline.finish_by = begin + std::chrono::duration_cast<std::chrono::seconds>(time);
  return deadline;
}

config::Job job_with(const config::Deadline& deadline) {
  config::Job job;
  job.deadline = deadline;
  return job;
}

config::Job job_when_needed(const config::Deadline& deadline) {
  config::Job job = job_with(deadline);
  job.launch.emplace().on_demand = {config::OnDemand::When::WhenNeeded, {}};
  return job;
}

TEST(OwnOutlook, SaysWhatAnInstanceKnowsByItself) {
  const config::Job job = job_when_needed(due_in(40h));
  EXPECT_FALSE(own_outlook(job_when_needed({}), Progress{}, 1, begin)) << "there is no deadline";
  EXPECT_EQ(text_of(*own_outlook(job, {}, 1, begin)), "by 2025-11-26T08:00:00Z");
  const Progress progress{.step = 50, .total = 100, .trained = 10};
  const auto half = own_outlook(job, progress, 1, begin);
  // Ten hours of work; a start of a quarter, three bounds of 30 s, two looks and a minute.
  EXPECT_EQ(text_of(*half),
            "by 2025-11-26T08:00:00Z; 50 % left, about 10.0 h; on demand from "
            "2025-11-25T21:40:30Z at the latest");
  EXPECT_EQ(own_outlook(job_with(due_in(40h)), progress, 1, begin)->latest, std::nullopt);
}

TEST(OwnOutlook, TellsThatTheDeadlineOrTheBudgetCannotBeKept) {
  const auto trouble = [](const config::Deadline& deadline, double dollars_an_hour) {
    const Progress progress{.step = 50, .total = 100, .trained = 10, .dollars = 4};
    return own_outlook(job_when_needed(deadline), progress, dollars_an_hour, begin)->trouble;
  };
  EXPECT_EQ(trouble(due_in(11h), 1), Trouble::None);
  EXPECT_EQ(trouble(due_in(9h), 1), Trouble::Late);
  config::Deadline limited = due_in(11h);
  limited.dollars = 10;
  EXPECT_EQ(trouble(limited, 0.5), Trouble::None);
  EXPECT_EQ(trouble(limited, 1), Trouble::Budget);
}

TEST(OwnOutlook, CountsByItsOwnPaceWithoutAnEstimate) {
  config::Deadline deadline = due_in(40h);
  deadline.work.reset();
  const auto work = [&](const Progress& progress) {
    return own_outlook(job_with(deadline), progress, 1, begin)->work;
  };
  EXPECT_FALSE(work({.step = 5, .total = 100}));
  EXPECT_DOUBLE_EQ(work({.step = 50, .total = 100, .trained = 10})->hours, 10);
}

TEST(OwnOutlook, OfATimeWithinDoesNotKnowTheFirstLaunch) {
  config::Deadline deadline;
  deadline.within = 36h;
  const auto known = own_outlook(job_with(deadline), Progress{}, 1, begin);
  EXPECT_EQ(text_of(*known), "within 36 h of its first launch");
  EXPECT_EQ(known->trouble, Trouble::None);
}

}  // namespace
}  // namespace spotter::launch
