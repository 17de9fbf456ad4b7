#include "agent/sweep/claim.hpp"

#include <gtest/gtest.h>

namespace spotter::sweep {
namespace {

const Claim some{Claim::State::Given, 3, "i-1 \"a\"", "n-7", Duration(180'000), 2, "attempt-2/c"};

TEST(Claim, ReadsWhatItWrites) {
  EXPECT_EQ(parse_claim(to_json(some)).value(), some);
  EXPECT_EQ(parse_claim(to_json({})).value(), Claim{});
}

TEST(Claim, OfSomebodyElseIsRefused) {
  EXPECT_FALSE(parse_claim(""));
  EXPECT_FALSE(parse_claim("[]"));
  EXPECT_EQ(parse_claim(R"({"state": "mine"})").error().message, "'mine' is no state of a claim");
  const std::string wrong = "its token, failures or span_ms is no number that a claim has";
  for (const std::string token : {"0", "-1", "1.5", "\"1\"", "18446744073709551615"}) {
    const auto claim =
        parse_claim(R"({"state": "held", "failures": 0, "span_ms": 1, "token": )" + token + "}");
    ASSERT_FALSE(claim) << token;
    EXPECT_EQ(claim.error().message, wrong);
  }
  EXPECT_FALSE(parse_claim(R"({"state": "held", "token": 1, "failures": 0, "span_ms": 1e12})"));
}

TEST(Claim, OfANewerSpotterIsRefused) {
  std::string newer = to_json(some);
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
  const auto claim = parse_claim(newer);
  ASSERT_FALSE(claim);
  EXPECT_NE(claim.error().message.find("the claim was written by a newer Spotter (format 2"),
            std::string::npos)
      << claim.error().message;
}

TEST(Claim, HasANameThatSortsAsItsIndex) {
  EXPECT_EQ(claim_name(42), "00042.claim");
  EXPECT_EQ(hint_name(9999, Hint::Ended), "09999.ended");
  EXPECT_EQ(hint_name(0, Hint::Given), "00000.given");
}

}  // namespace
}  // namespace spotter::sweep
