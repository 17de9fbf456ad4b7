// The report as text: one story as a golden file, rewritten with SPOTTER_REWRITE=1.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "told.hpp"

namespace spotter::report {
namespace {

constexpr const char* golden_file = "tests/report/report.md";

Told story() {
  Told it = told(
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
    it.sources[0].curve.add({50ULL * i, i / 20, 1.0 / i, {}, t0 + i});
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
  Told it = story();
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

TEST(Markdown, OfNothingIsSaidLittle) {
  const std::string text = to_markdown(built(0, ""));
  EXPECT_NE(text.find("nothing is known of it"), std::string::npos);
  EXPECT_EQ(text.find("## Interruptions"), std::string::npos);
}

}  // namespace
}  // namespace spotter::report
