// Parameter sets, and how one becomes a command.
#include "agent/config/parameters.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace spotter::sweep {
namespace {

Parameter text(const std::string& name, const std::string& value) {
  return {name, value, '"' + value + '"'};
}
Parameter number(const std::string& name, const std::string& value) { return {name, value, value}; }

std::vector<std::string> jsons(const std::vector<Set>& sets) {
  std::vector<std::string> all;
  for (const auto& set : sets) all.push_back(to_json(set));
  return all;
}

TEST(Grid, IsEveryCombinationTheLastParameterFastest) {
  const std::vector<Set> axes{{number("a", "1"), number("a", "2")},
                              {text("b", "x"), text("b", "y"), text("b", "z")}};
  EXPECT_EQ(jsons(grid(axes)),
            (std::vector<std::string>{R"({"a": 1, "b": "x"})", R"({"a": 1, "b": "y"})",
                                      R"({"a": 1, "b": "z"})", R"({"a": 2, "b": "x"})",
                                      R"({"a": 2, "b": "y"})", R"({"a": 2, "b": "z"})"}));
  EXPECT_TRUE(grid({}).empty());
  EXPECT_TRUE(grid({{number("a", "1")}, {}}).empty());
}

TEST(Grid, IsNotCountedBeyondWhatIsPossible) {
  const Set hundred(100, number("a", "1"));
  EXPECT_EQ(grid_size({hundred, hundred}), 10'000U);
  EXPECT_EQ(grid_size({hundred, hundred, hundred}), most_sets + 1);
  EXPECT_EQ(grid_size(std::vector<Set>(64, hundred)), most_sets + 1);
}

const std::vector<Drawn> parameters{{"rate", LogUniform{1e-4, 1e-1}},
                                    {"dropout", Uniform{0.1, 0.5}},
                                    {"units", Integer{-1, 2}},
                                    {"activation", Choice{{text("", "relu"), text("", "tanh")}}}};

// These very values: the list must not change between machines, nor between versions of Spotter.
TEST(Random, IsTheSameEverywhere) {
  EXPECT_EQ(jsons(draw(parameters, 3, 7)),
            (std::vector<std::string>{
                R"({"rate": 0.0150467, "dropout": 0.124371, "units": 2, "activation": "tanh"})",
                R"({"rate": 0.000349296, "dropout": 0.315284, "units": 1, "activation": "tanh"})",
                R"({"rate": 0.0252247, "dropout": 0.487544, "units": 1, "activation": "tanh"})"}));
}

TEST(Random, KeepsInsideItsEndsAndReachesAllThatIsBetween) {
  std::set<std::string> units;
  std::set<std::string> activations;
  int small = 0;
  for (const auto& set : draw(parameters, 1000, 1)) {
    const double rate = std::atof(set[0].text.c_str());
    const double dropout = std::atof(set[1].text.c_str());
    EXPECT_TRUE(rate >= 1e-4 && rate <= 1e-1) << rate;
    EXPECT_TRUE(dropout >= 0.1 && dropout <= 0.5) << dropout;
    small += rate < 1e-3 ? 1 : 0;
    units.insert(set[2].json);
    activations.insert(set[3].json);
  }
  EXPECT_NEAR(small, 333, 60);  // a third: one of the three powers of ten
  EXPECT_EQ(units, (std::set<std::string>{"-1", "0", "1", "2"}));
  EXPECT_EQ(activations, (std::set<std::string>{"\"relu\"", "\"tanh\""}));
}

TEST(Random, StaysWhenSetsAndParametersAreAdded) {
  const auto few = draw(parameters, 3, 7);
  const auto more = draw(parameters, 5, 7);
  EXPECT_EQ(jsons(few), jsons({more.begin(), more.begin() + 3}));
  const auto alone = draw({parameters[1]}, 3, 7);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(alone[i][0].text, few[i][1].text);
  EXPECT_NE(jsons(few), jsons(draw(parameters, 3, 8)));
}

TEST(Command, HasTheSetsValues) {
  const Set set{number("rate", "0.1"), text("name", "it's"), number("units", "[64,32]"),
                text("empty", "")};
  const auto filled = [&](const std::string& command) {
    return fill(command, set).value_or("refused");
  };
  EXPECT_EQ(filled("train --rate={rate} {name}{units} {empty}"),
            "train --rate=0.1 'it'\\''s''[64,32]' ''");
  EXPECT_EQ(filled("{{rate}} ${rate} awk '{print $1}' {a,b} { } {} {rate"),
            "{rate} ${rate} awk '{print $1}' {a,b} { } {} {rate");
  EXPECT_EQ(filled("{{rate} {rate}}"), "{0.1 0.1}");
  EXPECT_EQ(fill("train {rat}", set).error().message,
            "the command has {rat}, which is no parameter here; {{rat}} leaves {rat} as it is");
}

TEST(Command, HasWordsThatAreQuotedLater) {
  EXPECT_EQ(fill_word("--name={name}", {text("name", "it's me")}).value(), "--name=it's me");
}

TEST(Command, IsCheckedAgainstEverySet) {
  EXPECT_TRUE(check({{number("a", "1")}, {number("a", "2")}}, "x {a}"));
  EXPECT_EQ(check({{number("a", "1")}, {number("b", "2")}}, "x {a}").error().message.substr(0, 30),
            "set 1: the command has {a}, wh");
  EXPECT_FALSE(check({}, "x"));
}

}  // namespace
}  // namespace spotter::sweep
