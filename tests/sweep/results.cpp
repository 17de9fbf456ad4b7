#include "agent/tools/sweep/results.hpp"

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
  const auto plot = to_svg(all, {"loss", false}, "many");
  ASSERT_TRUE(plot);
  EXPECT_NE(plot->find("9990 more, of which 290 in grey"), std::string::npos);
  EXPECT_LT(plot->size(), 1'000'000U);
}

TEST(Results, QuoteWhatCsvNeeds) {
  Summary odd = experiment(0, 0.1, "a \"b\", c\nd");
  odd.parameters.push_back({"loss", "mse", "\"mse\""});
  EXPECT_EQ(
      to_csv({odd}),
      "index,state,lr,comment,n,parameter.loss,epoch,step,loss,accuracy,seconds,attempts,model\n"
      "0,done,0.1,\"a \"\"b\"\", c\nd\",0,mse,,10,0.1,,5,1,\n");
}

TEST(Results, PlotWhateverTheValues) {
  const SortOrder order{"loss", false};
  for (const std::vector<double>& losses : {std::vector<double>{0.5},
                                            {0.0, 0.0},
                                            {-1.0, 1.0},
                                            {1e-9, 1e9},
                                            {1e300, 1.0},
                                            {3.0, 3.0},
                                            {1e17, 1e17 + 32}}) {
    Summaries all;
    for (const double loss : losses) {
      all.push_back(experiment(all.size(), loss, "<&\""));
      all.back().curve = {};
      all.back().curve.add({.step = all.size(), .loss = loss});
    }
    const auto plot = to_svg(all, order, "a <title> & more");
    ASSERT_TRUE(plot);
    for (const char* wrong : {"nan", "inf", "<&", "a <title>"})
      EXPECT_EQ(plot->find(wrong), std::string::npos) << wrong << losses[0];
    const auto curves = [&plot] {
      std::size_t found = 0;
      for (std::size_t at = 0; (at = plot->find("<circle", at)) != std::string::npos; ++at) ++found;
      return found;
    };
    EXPECT_EQ(curves(), losses.size());
  }
  EXPECT_NE(to_svg({experiment(0, 1e-3), experiment(1, 10)}, order, "")->find("logarithmic"),
            std::string::npos);
  EXPECT_FALSE(to_svg({Summary{}}, order, ""));
}

}  // namespace
}  // namespace spotter::command
