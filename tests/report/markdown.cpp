// The report as text: one story as a golden file, rewritten with SPOTTER_REWRITE=1.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "input.hpp"

namespace spotter::report {
namespace {

constexpr const char* golden_file = "tests/report/report.md";

Input story() {
  Input it = input_at(
      4000, announced("i-0a").text() +
                Lines("i-0b")
                    .began(250, "us-west-2b", 1.1)
                    .phase(251, "moving")
                    .trains(290, 810)
                    .checkpoint(900, 1500)
                    .at(1010, "problem", R"("level":"warning","words":"a | <b> `c` \u001b[2J")")
                    .text() +
                Lines("i-0c")
                    .began(1300)
                    .trains(1320, 1500, 312)
                    .ended(1400, "failed", 1700, 1600)
                    .trains(1410, 1600, 100)
                    .ended(3000, "finished", 5000, 5000)
                    .left(3010, "finished")
                    .text());
  for (unsigned i = 1; i <= 100; ++i)
    it.sources[0].curve.add({50ULL * i,
                             i / 20,
                             1.0 / i,
                             {},
                             t0 + i,
                             i % 20 == 0 ? MetricValues{{"val_loss", 2.0 / i}} : MetricValues()});
  it.prices.on_demand["g5.xlarge"] = 3;
  it.prices.notes = {"on-demand prices: the price list of us-west-2"};
  return it;
}

TEST(Markdown, ReadsLikeThis) {
  const std::string now = to_markdown(build(story()));
  if (std::getenv("SPOTTER_REWRITE")) std::ofstream(golden_file) << now;
  std::ifstream file(golden_file);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), now) << "read the difference; if it is meant, SPOTTER_REWRITE=1";
}

TEST(Markdown, ASweepHasATable) {
  Input it = story();
  it.is_sweep = true;
  it.parameters = {"lr"};
  sweep::Summary summary;
  summary.index = 7;
  summary.parameters = {{"lr", "0.1", "0.1"}, {"act", "relu", "\"relu\""}};
  it.experiments = {summary};
  const std::string text = to_markdown(build(it));
  EXPECT_NE(text.find("| experiment | state   | lr  | step | loss | accuracy | attempts |\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("| 7          | waiting | 0.1 | -    | -    | -        | 0        |\n"),
            std::string::npos);
}

TEST(Markdown, OfASweepTheBestByItsObjectiveIsFirst) {
  Input it = story();
  it.is_sweep = true;
  it.objective = sweep::Objective{"val_loss", false};
  for (const std::size_t index : {0, 1, 2}) {
    sweep::Summary summary{.index = index, .state = sweep::Summary::State::Done};
    summary.curve.add({.step = 9,
                       .accuracy = 0.5 + 0.1 * static_cast<double>(index),
                       .metrics = {{"val_loss", index == 1 ? 0.25 : 0.5}}});
    it.experiments.push_back(summary);
  }
  const std::string text = to_markdown(build(it));
  EXPECT_NE(text.find("| experiment | state | step | loss | accuracy | val_loss | attempts |\n"),
            std::string::npos)
      << text;
  const auto best =
      text.find("| 1          | done  | 9    | -    | 0.6      | 0.25     | 0        |");
  ASSERT_NE(best, std::string::npos) << text;
  EXPECT_LT(best, text.find("| 0          | done"));
  EXPECT_NE(text.find("The best first, by val_loss, smallest first."), std::string::npos);
  it.objective = sweep::Objective{"val_f1", true};
  const auto model = build(it);
  EXPECT_EQ(to_json(model)["sweep"]["objective"]["metric"], "val_loss");
  EXPECT_EQ(to_json(model)["sweep"]["objective"]["mode"], "min");
  EXPECT_NE(to_markdown(model).find("Note: no experiment has reported val_f1"), std::string::npos);
}

TEST(Markdown, OfASweepSaysWhatWasStoppedEarly) {
  Input it = story();
  it.is_sweep = true;
  for (const std::size_t index : {0, 1}) {
    sweep::Summary summary{.index = index, .state = sweep::Summary::State::Done};
    summary.curve.add({.step = 9, .metrics = {{"val_loss", index == 1 ? 0.25 : 0.5}}});
    if (index == 1) summary.stopped_early = "6 were better";
    it.experiments.push_back(summary);
  }
  const std::string text = to_markdown(build(it));
  const auto early = text.find("| 1          | stopped early |");
  ASSERT_NE(early, std::string::npos) << text;
  EXPECT_GT(early, text.find("| 0          | done          |"));
  EXPECT_NE(text.find("Experiment 1: 6 were better.\n"), std::string::npos) << text;
}

TEST(Markdown, OfNothingIsSaidLittle) {
  const std::string text = to_markdown(built(0, ""));
  EXPECT_NE(text.find("nothing is known of it"), std::string::npos);
  EXPECT_EQ(text.find("## Interruptions"), std::string::npos);
}

}  // namespace
}  // namespace spotter::report
