#include "agent/commands/results.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace spotter::command {
namespace {

using sweep::Summary;

Summary experiment(std::size_t index, double loss, const std::string& text = "x") {
  Summary summary{.index = index, .state = Summary::State::Done, .attempts = 1, .seconds = 5};
  summary.parameters = {
      {"lr", "0.1", "0.1"}, {"comment", text, "\"\""}, {"n", std::to_string(index), ""}};
  summary.curve.add({.step = 1, .loss = 2 * loss});
  summary.curve.add({.step = 10, .loss = loss});
  return summary;
}

Summaries many(std::size_t count) {
  Summaries all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(experiment(i, 1.0 / static_cast<double>(i + 1)));
  return all;
}

std::vector<std::size_t> indices(const Summaries& all) {
  std::vector<std::size_t> indices;
  for (const Summary& summary : all) indices.push_back(summary.index);
  return indices;
}

std::vector<std::string> lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

using Indices = std::vector<std::size_t>;

// Whatever it had reached: what more training would have made of it is not known.
TEST(Results, ListWhatWasStoppedEarlyBehindWhatWasNot) {
  Summaries all = many(3);
  all[2].stopped_early = "val_loss 3 at step 10 is not, among";
  sort(all, *sort_order(all, "loss"));
  EXPECT_EQ(indices(all), (Indices{1, 0, 2})) << "its loss is the smallest";
  const auto table = lines(to_table(all, *sort_order(all, "loss"), {}));
  EXPECT_NE(table[3].find("stopped early"), std::string::npos);
  EXPECT_EQ(table.back(),
            "3 experiments, 3 done; 1 stopped early, listed behind those that came to their end; "
            "by loss, smallest first");
  const auto csv = lines(to_csv(all));
  EXPECT_TRUE(csv[0].ends_with(",model,stopped_early"));
  EXPECT_TRUE(csv[1].ends_with(",")) << csv[1];
  EXPECT_TRUE(csv[3].ends_with(",\"val_loss 3 at step 10 is not, among\"")) << csv[3];
  EXPECT_TRUE(lines(to_csv(many(1)))[0].ends_with(",model"));
}

TEST(Results, AreSortedByWhatIsThere) {
  Summaries all = many(3);
  EXPECT_EQ(sort_order(all, "")->metric, "loss") << "nobody says an accuracy";
  all[1].curve.add({.step = 11, .accuracy = 0.5});
  EXPECT_EQ(sort_order(all, "")->metric, "accuracy");
  EXPECT_TRUE(sort_order(all, "")->largest_first);
  sort(all, *sort_order(all, ""));
  EXPECT_EQ(indices(all), (Indices{1, 0, 2})) << "the others keep the order of their indices";
  sort(all, *sort_order(all, "n:max"));
  EXPECT_EQ(indices(all), (Indices{2, 1, 0}));
  sort(all, *sort_order(all, "loss"));
  EXPECT_EQ(indices(all), (Indices{2, 1, 0}));
  all[0].state = Summary::State::Failed;
  all[1].state = Summary::State::Running;
  sort(all, *sort_order(all, "loss"));
  EXPECT_EQ(indices(all), (Indices{0, 1, 2})) << "done, running, failed";
  EXPECT_FALSE(sort_order(all, "comment")) << "no number";
  EXPECT_EQ(sort_order({Summary{}}, "")->metric, "index");
}

// The one that learned the training's examples best is not the best one.
Summaries validated() {
  Summaries all = many(3);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].curve.add({.step = 20,
                      .accuracy = 0.7 + 0.1 * static_cast<double>(i),
                      .metrics = {{"val_accuracy", 0.9 - 0.1 * static_cast<double>(i)},
                                  {"val_loss", i == 1 ? 0.1 : 0.2},
                                  {"lr", 0.001}}});
  return all;
}

TEST(Results, AreSortedByTheValidation) {
  Summaries all = validated();
  sort(all, *sort_order(all, "accuracy"));
  EXPECT_EQ(indices(all), (Indices{2, 1, 0}));
  EXPECT_EQ(sort_order(all, "")->metric, "val_accuracy");
  EXPECT_EQ(sort_order(all, "")->note, "");
  sort(all, *sort_order(all, ""));
  EXPECT_EQ(indices(all), (Indices{0, 1, 2}));
  const sweep::Objective loss{"val_loss", false};
  sort(all, *sort_order(all, "", loss));
  EXPECT_EQ(indices(all), (Indices{1, 0, 2}));
  sort(all, *sort_order(all, "val_loss:max", loss));
  EXPECT_EQ(indices(all), (Indices{0, 2, 1})) << "as a person asks now";
  EXPECT_EQ(sort_order(all, "nothing").error().message,
            "no experiment has a metric 'nothing'; there are: accuracy, loss, step, seconds, "
            "attempts, index, lr, n, val_accuracy, val_loss");
}

TEST(Results, SayWhereTheObjectiveIsOfNone) {
  Summaries all = validated();
  const sweep::Objective f1{"val_f1", true};
  const auto instead = sort_order(all, "", f1);
  EXPECT_EQ(instead->metric, "val_accuracy");
  EXPECT_EQ(instead->note,
            "no experiment has reported val_f1, the sweep's objective, so the experiments are "
            "compared by val_accuracy");
  EXPECT_NE(to_table(all, *instead, {})
                .find("\n" + instead->note +
                      "\n3 experiments, 3 done; by "
                      "val_accuracy, largest first\n"),
            std::string::npos);
  EXPECT_EQ(sort_order(many(2), "")->note,
            "no experiment has reported val_accuracy or val_loss, so the experiments are compared "
            "by loss of the training");
  EXPECT_EQ(sort_order({Summary{}}, "")->note, "") << "nothing was trained yet";
  EXPECT_NE(sort_order({Summary{}}, "", f1)->note.find("so they come in their order"),
            std::string::npos);
}

TEST(Results, HaveAColumnOfEachMetric) {
  const Summaries all = validated();
  const std::string csv = to_csv(all);
  EXPECT_TRUE(
      csv.starts_with("index,state,parameter.lr,comment,n,epoch,step,loss,accuracy,lr,"
                      "val_accuracy,val_loss,seconds,attempts,model\n0,done,0.1,x,0,,20,1,"
                      "0.7,0.001,0.9,0.2,5,1,\n"))
      << csv;
  const SortOrder order{"val_loss", false};
  const auto wide = lines(to_table(all, order, {200, 0}));
  EXPECT_NE(wide[0].find("accuracy  lr     val_accuracy  val_loss  seconds"), std::string::npos)
      << wide[0];
  const std::string narrow = to_table(all, order, {70, 0});
  EXPECT_NE(narrow.find("metrics found no room: --csv has them\n"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("val_loss"), std::string::npos) << "which ranks them";
}

TEST(Results, FitATerminal) {
  Summaries all = many(3);
  all[0].parameters[1].text = "a long comment with ü and \x1b[31m and what not, about forty";
  const SortOrder order{"loss", false};
  for (const std::size_t columns : {200, 100, 80, 70, 60}) {
    const auto table = lines(to_table(all, order, {columns, 0}));
    for (std::size_t row = 0; row < 4; ++row)
      EXPECT_LE(table[row].size(), columns + 4) << table[row] << "(ü and … have more bytes)";
    EXPECT_EQ(table[0].starts_with("index  state"), true);
    EXPECT_NE(table[0].find("attempts"), std::string::npos);
    EXPECT_EQ(table[1].find('\x1b'), std::string::npos);
  }
  const std::string wide = to_table(all, order, {200, 0});
  EXPECT_NE(wide.find("lr"), std::string::npos);
  EXPECT_EQ(wide.find("in all:"), std::string::npos);
  all[0].curve.add({.step = 9'007'199'254'740'993});  // no double has it
  EXPECT_NE(to_table(all, order, {}).find(" 9007199254740993 "), std::string::npos);
  EXPECT_NE(to_table(all, order, {90, 0}).find("in all: lr=0.1\n"), std::string::npos);
  EXPECT_NE(to_table(all, order, {40, 0}).find("parameters found no room"), std::string::npos);
}

TEST(Results, OfTenThousandShowTheBest) {
  const Summaries all = many(10'000);
  const auto table = lines(to_table(all, {"index", false}, {80, 100}));
  EXPECT_LT(table.size(), 110U);
  EXPECT_EQ(table.back(), "10000 experiments, 10000 done; by index, smallest first");
  EXPECT_EQ(table[table.size() - 2], "... 9900 more: --csv has all");
  EXPECT_EQ(lines(to_csv(all)).size(), 10'001U);
}

TEST(Results, QuoteWhatCsvNeeds) {
  Summary odd = experiment(0, 0.1, "a \"b\", c\nd");
  odd.parameters.push_back({"loss", "mse", "\"mse\""});
  EXPECT_EQ(
      to_csv({odd}),
      "index,state,lr,comment,n,parameter.loss,epoch,step,loss,accuracy,seconds,attempts,model\n"
      "0,done,0.1,\"a \"\"b\"\", c\nd\",0,mse,,10,0.1,,5,1,\n");
}

}  // namespace
}  // namespace spotter::command
