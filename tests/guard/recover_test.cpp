// Recovery by the difference between a directory and its newest generation.
#include "agent/guard/keeper.hpp"

#include <gtest/gtest.h>

namespace spotter::guard {
namespace {

using What = Difference::What;
using Names = std::vector<std::string>;

Difference one(const std::string& name, Proof proof, What what = What::New, bool current = true) {
  return {
      .name = name, .what = what, .proof = proof, .why = "its end is missing", .current = current};
}
Difference companion(const std::string& name, Proof proof) {
  return {.name = name, .what = What::Changed, .companion = true, .proof = proof};
}
constexpr End ends_that_were_not_meant[] = {End::Failed, End::Killed, End::Lost};

TEST(Recovery, WhatIsWholeIsTakenUpTogether) {
  for (const End end : ends_that_were_not_meant) {
    const Plan todo =
        plan({one("model_2.pt", Proof::Whole), companion("latest", Proof::Whole)}, end, true);
    EXPECT_EQ(todo.taken, (Names{"model_2.pt", "latest"}));
    EXPECT_TRUE(todo.away.empty());
    EXPECT_FALSE(todo.back);
  }
}

TEST(Recovery, OneFileThatIsNotWholeTakesItsSetAlong) {
  for (const Proof proof : {Proof::Torn, Proof::Unknown}) {
    const Plan todo =
        plan({one("model_2.pt", Proof::Whole), one("optim_2.pt", proof),
              companion("latest", Proof::Whole), one("model_1.pt", Proof::Unknown, What::Missing)},
             End::Killed, true);
    EXPECT_EQ(todo.away, (Names{"model_2.pt", "optim_2.pt", "latest"}));
    EXPECT_TRUE(todo.taken.empty());
    EXPECT_TRUE(todo.back);
    EXPECT_NE(todo.why.find("optim_2.pt"), std::string::npos) << todo.why;
  }
}

TEST(Recovery, ASetThatLacksAFileIsNotTakenUp) {
  const Plan todo = plan({one("model_2.pt", Proof::Whole)}, End::Killed, false);
  EXPECT_EQ(todo.away, Names{"model_2.pt"});
}

TEST(Recovery, TheSetBeforeTheOneThatWasBegunIs) {
  const Plan todo = plan({one("checkpoint-2/model", Proof::Whole, What::New, false),
                          one("checkpoint-3/model", Proof::Torn)},
                         End::Killed, false);
  EXPECT_EQ(todo.taken, Names{"checkpoint-2/model"});
  EXPECT_EQ(todo.away, Names{"checkpoint-3/model"});
}

TEST(Recovery, ATrainerThatEndedByItselfMeantWhatItLeft) {
  for (const End end : {End::Finished, End::Stopped, End::Unwatched}) {
    const Plan todo = plan(
        {one("a", Proof::Whole), one("b", Proof::Torn), one("c", Proof::Unknown, What::Missing)},
        end, false);
    EXPECT_EQ(todo.taken, (Names{"a", "c"}));
    EXPECT_EQ(todo.away, Names{"b"});
    EXPECT_TRUE(todo.back) << "of b; what it removed stays removed";
  }
}

TEST(Recovery, WhatTheScriptRemovedAloneTearsNothing) {
  const Plan todo = plan({one("a", Proof::Unknown, What::Missing)}, End::Killed, true);
  EXPECT_EQ(todo.taken, Names{"a"});
}

TEST(Recovery, TheLastOneIsPutBackWhereNothingCameInItsPlace) {
  Difference gone = one("a", Proof::Unknown, What::Missing);
  gone.newest = true;
  EXPECT_TRUE(plan({gone}, End::Killed, true).back);
  EXPECT_FALSE(plan({gone, one("b", Proof::Whole)}, End::Killed, true).back);
  EXPECT_FALSE(plan({gone}, End::Finished, true).back);
}

TEST(Recovery, AnEmptyTrackerIsTornWithItsSet) {
  const Plan todo = plan(
      {one("global_step3/model", Proof::Whole), companion("latest", Proof::Torn)}, End::Lost, true);
  EXPECT_TRUE(todo.back);
  EXPECT_EQ(todo.away.size(), 2U);
}

}  // namespace
}  // namespace spotter::guard
