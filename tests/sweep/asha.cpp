// Asynchronous successive halving: where the rungs are, and who goes on.
#include "agent/sweep/asha.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/sweep/settled.hpp"

namespace spotter::sweep {
namespace {

class Bucket : public RungStore {
 public:
  Answer<std::optional<std::string>> read(std::string name) override {
    if (name == unreadable) co_return failure("no answer");
    const auto found = objects.find(name);
    if (found == objects.end()) co_return std::nullopt;
    co_return found->second;
  }
  Answer<std::vector<std::string>> list(std::string folder) override {
    if (folder == unreadable) co_return failure("no answer");
    std::vector<std::string> names;
    for (const auto& [name, text] : objects)
      if (name.starts_with(folder)) names.push_back(name);
    co_return names;
  }
  Answer<bool> write_once(std::string name, std::string text) override {
    if (before_write) std::exchange(before_write, {})();
    if (refuses_writes) co_return failure("no answer");
    co_return objects.emplace(name, text).second;
  }

  std::map<std::string, std::string> objects;
  std::string unreadable;
  bool refuses_writes = false;
  std::function<void()> before_write;
};

class AshaTest : public testing::Test {
 protected:
  Result<RungRecord> come(std::size_t index, double value, std::uint32_t rung = 0,
                          std::uint32_t judged = 0) {
    return settled(bucket_, rule_, objective_,
                   {.index = index, .rung = rung, .judged = judged, .step = 100, .value = value});
  }

  Bucket bucket_;
  Asha rule_;
  Objective objective_{"val_accuracy", true};
};

TEST(Rungs, AreAPowerOfTheReductionApart) {
  const Asha rule{.reduction = 3, .first = 500};
  EXPECT_EQ(rung_at(rule, 499, {}), std::nullopt);
  EXPECT_EQ(rung_at(rule, 500, {}), 0U);
  EXPECT_EQ(rung_at(rule, 1499, {}), 0U);
  EXPECT_EQ(rung_at(rule, 1500, {}), 1U);
  EXPECT_EQ(rung_at(rule, 4500, 100'000), 2U);
  EXPECT_EQ(rung_at(rule, 4500, 4500), std::nullopt) << "at the end there is nothing to save";
  EXPECT_EQ(rung_at(rule, ~std::uint64_t{0}, {}), 34U);
}

TEST(Rungs, AreByDefaultThreePartsOfTheWhole) {
  const Asha rule;
  const std::uint64_t epoch = 469;
  EXPECT_EQ(rung_at(rule, epoch, {}), std::nullopt) << "the trainer does not say how many";
  EXPECT_EQ(rung_at(rule, epoch - 1, 27 * epoch), std::nullopt);
  EXPECT_EQ(rung_at(rule, epoch, 27 * epoch), 0U);
  EXPECT_EQ(rung_at(rule, 3 * epoch, 27 * epoch), 1U);
  EXPECT_EQ(rung_at(rule, 9 * epoch, 27 * epoch), 2U);
  EXPECT_EQ(rung_at(rule, 26 * epoch, 27 * epoch), 2U);
}

TEST(Rungs, LetTheBestThirdGoOnAndAlwaysTheFirst) {
  const Asha rule;
  EXPECT_TRUE(goes_on(rule, 0, 1));
  EXPECT_FALSE(goes_on(rule, 1, 2));
  EXPECT_FALSE(goes_on(rule, 1, 3));
  EXPECT_TRUE(goes_on(rule, 1, 4));
  EXPECT_TRUE(goes_on(rule, 2, 9));
  EXPECT_FALSE(goes_on(rule, 3, 9));
}

TEST_F(AshaTest, ComparesWithThoseThatCameBefore) {
  EXPECT_TRUE(come(0, 0.5)->goes_on);
  EXPECT_TRUE(come(1, 0.6)->goes_on) << "better than the first";
  const auto third = come(2, 0.55);
  EXPECT_FALSE(third->goes_on);
  EXPECT_EQ(third->better, 1U);
  EXPECT_EQ(third->compared, 3U);
  EXPECT_EQ(why_stopped(rule_, *third),
            "val_accuracy 0.55 at step 100 is not among the best 1/3 of the 3 that came so far: 1 "
            "were better");
  EXPECT_TRUE(come(3, 0.6)->goes_on) << "as good as the best";
  EXPECT_TRUE(come(4, 0.1, 1)->goes_on) << "the first at another rung";
}

TEST_F(AshaTest, KnowsThatTheSmallestLossIsBest) {
  objective_ = {"val_loss", false};
  EXPECT_TRUE(come(0, 0.5)->goes_on);
  EXPECT_FALSE(come(1, 0.6)->goes_on);
  EXPECT_TRUE(come(2, 0.4)->goes_on);
}

TEST_F(AshaTest, GivesOneVerdictAtARungWhoeverAsks) {
  come(0, 0.5);
  EXPECT_TRUE(come(1, 0.6)->goes_on);
  for (std::size_t index = 2; index < 9; ++index) come(index, 0.9);
  EXPECT_TRUE(come(1, 0.6)->goes_on) << "after an interruption it is not judged again";
  EXPECT_EQ(come(1, 0.7)->value, 0.6) << "nor is its value";
}

TEST_F(AshaTest, RemembersAnEndAtAnEarlierRung) {
  come(0, 0.5);
  EXPECT_FALSE(come(1, 0.4)->goes_on);
  const auto later = come(1, 0.9, 2);
  EXPECT_FALSE(later->goes_on) << "its agent died before it could end the trainer";
  EXPECT_FALSE(bucket_.objects.contains(rung_name(2, 1)));
  EXPECT_TRUE(come(1, 0.9, 2, 1)->goes_on) << "an agent that has seen rung 0 does not ask again";
}

TEST_F(AshaTest, TakesTheVerdictOfAnotherHolderThatWasFaster) {
  come(0, 0.5);
  const RungRecord theirs{.step = 100,
                          .metric = "val_accuracy",
                          .value = 0.4,
                          .better = 1,
                          .compared = 2,
                          .goes_on = false};
  bucket_.before_write = [&] { bucket_.objects.emplace(rung_name(0, 1), to_json(theirs)); };
  EXPECT_EQ(*come(1, 0.9), theirs);
}

TEST_F(AshaTest, DecidesNothingWhereTheBucketDoesNotAnswer) {
  come(0, 0.9);
  for (const std::string& place : {rung_name(0, 1), rung_folder(0), rung_name(0, 0)}) {
    bucket_.unreadable = place;
    EXPECT_FALSE(come(1, 0.1)) << place;
    EXPECT_EQ(bucket_.objects.size(), 1U) << "what cannot be read is not absent: " << place;
  }
  bucket_.unreadable.clear();
  bucket_.refuses_writes = true;
  EXPECT_FALSE(come(1, 0.1)) << "a verdict that is not recorded is none";
  bucket_.refuses_writes = false;
  EXPECT_FALSE(come(1, 0.1)->goes_on);
}

TEST_F(AshaTest, LeavesOutWhatCannotBeCompared) {
  come(0, 0.9);
  bucket_.objects[rung_name(0, 7)] = "damaged";
  bucket_.objects[rung_name(0, 8)] =
      to_json(RungRecord{.step = 1, .metric = "val_loss", .value = 3});
  EXPECT_EQ(come(1, 0.5)->compared, 2U);
  bucket_.objects[rung_name(0, 2)] = "damaged";
  EXPECT_FALSE(come(2, 0.5)) << "its own";
}

TEST_F(AshaTest, ComparesWithASampleOfMany) {
  for (std::size_t index = 1; index <= 3000; ++index)
    bucket_.objects[rung_name(0, index)] =
        to_json(RungRecord{.metric = "val_accuracy", .value = static_cast<double>(index)});
  EXPECT_EQ(come(0, 2500)->compared, most_compared + 1);
  EXPECT_TRUE(come(5000, 2500)->goes_on) << "the best sixth";
  EXPECT_FALSE(come(5001, 1500)->goes_on) << "the worse half";
}

TEST(Rungs, OfAnotherRuleOrObjectiveLieElsewhere) {
  EXPECT_EQ(rungs_folder({.reduction = 3, .first = 500}, {"val_accuracy", true}),
            "rungs/val_accuracy-max-500-3/");
  EXPECT_EQ(rungs_folder({.reduction = 4, .first = {}}, {"val/loss", false}),
            "rungs/val.loss-min-total-4/");
}

TEST(RungRecord, IsReadAsItWasWritten) {
  const RungRecord record{.step = 1407,
                          .metric = "val/loss",
                          .value = -0.25,
                          .better = 3,
                          .compared = 4,
                          .goes_on = false};
  EXPECT_EQ(*parse_rung_record(to_json(record)), record);
  for (const char* bad : {"", "[]", "{}", R"({"version": 1, "step": 1, "value": "x"})",
                          R"({"version": 1, "step": -1, "value": 1, "better": 0, "compared": 1})"})
    EXPECT_FALSE(parse_rung_record(bad)) << bad;
  EXPECT_FALSE(parse_rung_record(R"({"version": 2, "step": 1, "value": 1, "better": 0,
                                     "compared": 1, "goes_on": true})"));
}

}  // namespace
}  // namespace spotter::sweep
