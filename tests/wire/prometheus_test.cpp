#include "agent/wire/prometheus.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace spotter::wire {
namespace {

TEST(Exposition, TellsAFamilyOnceAndOnlyWithSamples) {
  Exposition to;
  to.gauge("loss", "The loss.");
  to.sample(std::optional<double>());
  to.counter("calls_total", "Calls.");
  to.sample(3, {{"action", "A"}});
  to.sample(0.1, {{"action", "B\"\\\n"}, {"service", "ec2"}});
  EXPECT_EQ(to.take(),
            "# HELP spotter_calls_total Calls.\n# TYPE spotter_calls_total counter\n"
            "spotter_calls_total{action=\"A\"} 3\n"
            "spotter_calls_total{action=\"B\\\"\\\\\\n\",service=\"ec2\"} 0.10000000000000001\n");
}

TEST(Exposition, HasItsOwnWordsForWhatIsNoNumber) {
  Exposition to;
  to.gauge("x", "X.");
  to.sample(std::numeric_limits<double>::infinity());
  to.sample(std::numeric_limits<double>::quiet_NaN());
  to.sample(-1e300);
  to.sample(9007199254740991.0);
  const std::string text = to.take();
  EXPECT_NE(text.find("spotter_x +Inf\nspotter_x NaN\nspotter_x -1.0000000000000001e+300\n"
                      "spotter_x 9007199254740991\n"),
            text.npos)
      << text;
}

}  // namespace
}  // namespace spotter::wire
