#include "agent/wire/monitoring.hpp"

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
  to.gauge("w", "W.");
  to.sample(std::numeric_limits<double>::quiet_NaN());
  to.gauge("y", "Y.");
  to.sample(-1e300);
  to.gauge("z", "Z.");
  to.sample(9007199254740991.0);
  const std::string text = to.take();
  for (const char* line : {"spotter_x +Inf\n", "spotter_w NaN\n",
                           "spotter_y -1.0000000000000001e+300\n", "spotter_z 9007199254740991\n"})
    EXPECT_NE(text.find(line), text.npos) << line << text;
}

// A trainer chooses the names of channels, and who joins a gang those of its members.
TEST(Exposition, IsReadableWhateverItsLabelsAre) {
  Exposition to;
  to.gauge("x", "X.");
  for (const char* name : {"a\xff", "b\xc3", "c\xe0\x80\x80", "d\xed\xa0\x80", "e\xf4\x90\x80\x80",
                           "f\x1b[2J\x7f\t\b\n\"\\/", "g\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"})
    to.sample(1, {{"of", name}});
  EXPECT_EQ(
      to.take(),
      "# HELP spotter_x X.\n# TYPE spotter_x gauge\nspotter_x{of=\"a\uFFFD\"} 1\n"
      "spotter_x{of=\"b\uFFFD\"} 1\nspotter_x{of=\"c\uFFFD\uFFFD\uFFFD\"} 1\n"
      "spotter_x{of=\"d\uFFFD\uFFFD\uFFFD\"} 1\nspotter_x{of=\"e\uFFFD\uFFFD\uFFFD\uFFFD\"} 1\n"
      "spotter_x{of=\"f?[2J???\\n\\\"\\\\/\"} 1\n"
      "spotter_x{of=\"g\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"} 1\n");
}

TEST(Exposition, HasEachSampleOnce) {
  Exposition to;
  to.gauge("x", "X.");
  for (const char* name : {"i-1", "i-1", "a\xff", "a\xfe", "i-2"}) to.sample(1, {{"of", name}});
  to.gauge("y", "Y.");
  to.sample(2, {{"of", "i-1"}});
  EXPECT_EQ(to.take(),
            "# HELP spotter_x X.\n# TYPE spotter_x gauge\nspotter_x{of=\"i-1\"} 1\n"
            "spotter_x{of=\"a\uFFFD\"} 1\nspotter_x{of=\"i-2\"} 1\n"
            "# HELP spotter_y Y.\n# TYPE spotter_y gauge\nspotter_y{of=\"i-1\"} 2\n");
}

}  // namespace
}  // namespace spotter::wire
