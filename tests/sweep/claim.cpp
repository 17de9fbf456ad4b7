#include "agent/sweep/claim.hpp"

#include <gtest/gtest.h>

namespace spotter::sweep {
namespace {

const Claim some{Claim::State::Given, 3, "i-1 \"a\"", "n-7", Duration(180'000), 2, "attempt-2"};

TEST(Claim, ReadsWhatItWrites) {
  EXPECT_EQ(parse_claim(to_json(some)).value(), some);
  EXPECT_EQ(parse_claim(to_json(Claim{})).value(), Claim{});
}

TEST(Claim, OfSomebodyElseIsRefused) {
  EXPECT_FALSE(parse_claim(""));
  EXPECT_FALSE(parse_claim("[]"));
  EXPECT_EQ(parse_claim(R"({"state": "mine"})").error().message,
            "the claim: \"state\" is none of its words");
  for (const std::string token : {"0", "-1", "1.5", "\"1\"", "18446744073709551615"}) {
    const auto claim =
        parse_claim(R"({"state": "held", "failures": 0, "span_ms": 1, "token": )" + token + "}");
    ASSERT_FALSE(claim) << token;
    EXPECT_NE(claim.error().message.find("token"), std::string::npos) << claim.error().message;
  }
  EXPECT_FALSE(parse_claim(R"({"state": "held", "token": 1, "failures": 0, "span_ms": 1e12})"));
}

// Whoever may write to the claims' prefix would have a machine copy a folder of its own disk, or of
// another job's, into the experiment's.
TEST(Claim, ThatNamesAPathInThePlaceOfAnAttemptIsRefused) {
  for (const char* parent : {"/root", "../other/attempt-1", "attempt-2/../../other", "attempt-2/",
                             ".", "..", "attempt-", "code", "attempt-1\\u0000/x"}) {
    std::string text = to_json(some);
    text.replace(text.find("attempt-2"), 9, parent);
    const auto claim = parse_claim(text);
    ASSERT_FALSE(claim) << parent;
    EXPECT_EQ(claim.error().message, "its parent is no attempt's name") << parent;
  }
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

TEST(ClaimsOwner, ReadsWhatItWrites) {
  const Owner owner{"0123abcd", "efs:fs-1/jobs \"a\""};
  EXPECT_EQ(parse_owner(to_json(owner)).value(), owner);
}

TEST(ClaimsOwner, OfSomebodyElseOrOfANewerSpotterIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"version": 1, "id": 7})"})
    EXPECT_FALSE(parse_owner(text)) << text;
  const auto owner = parse_owner(R"({"version": 2, "id": "0123abcd"})");
  ASSERT_FALSE(owner);
  EXPECT_NE(owner.error().message.find("was written by a newer Spotter (format 2"),
            std::string::npos)
      << owner.error().message;
}

TEST(Claim, HasANameThatSortsAsItsIndex) {
  EXPECT_EQ(claim_name(42), "00042.claim");
  EXPECT_EQ(hint_name(9999, Hint::Ended), "09999.ended");
  EXPECT_EQ(hint_name(0, Hint::Given), "00000.given");
}

}  // namespace
}  // namespace spotter::sweep
