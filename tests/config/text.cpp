// Guesses of the word that was meant, and the value of ${NAME}.
#include <gtest/gtest.h>

#include "agent/config/values.hpp"

namespace spotter::config {
namespace {

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string_view> keys{"storage", "trainer", "stop_signal", "stop_grace"};
  EXPECT_EQ(nearest("storge", keys), "storage");
  EXPECT_EQ(nearest("trianer", keys), "trainer");
  EXPECT_EQ(nearest("Stop-Signal", keys), "stop_signal");
  EXPECT_EQ(nearest("banana", keys), "");
  EXPECT_EQ(nearest(std::string(100'000, 'x'), keys), "");
}

TEST(Expand, ReplacesOnlyNamesInBraces) {
  const std::map<std::string, std::string> variables{{"MOUNT", "/mnt"}, {"EMPTY", ""}};
  EXPECT_EQ(expand("${MOUNT}/a${EMPTY}b", variables).value(), "/mnt/ab");
  EXPECT_EQ(expand("$MOUNT $5 $", variables).value(), "$MOUNT $5 $");
  EXPECT_EQ(expand("$${MOUNT}", variables).value(), "${MOUNT}");
  EXPECT_EQ(expand("${NONE}", variables).error().message,
            "the environment has no variable 'NONE'; a plain '${' is written '$${'");
  EXPECT_FALSE(expand("${MOUNT", variables));
}

}  // namespace
}  // namespace spotter::config
