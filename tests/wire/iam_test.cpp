// The words for a person when AWS refuses a call for lack of permission, and the documents' places.
#include "agent/aws/formats/iam.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

TEST(MissingPermission, NamesActionResourceAndStatement) {
  EXPECT_EQ(missing_permission(
                "ec2:DeleteSnapshot",
                "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-"
                "role/spotter/i-1 is not authorized to perform: ec2:DeleteSnapshot on resource: "
                "arn:aws:ec2:us-west-2::snapshot/snap-1 because no identity-based policy allows "
                "the ec2:DeleteSnapshot action. Encoded authorization failure message: 4GIOHlTkI"),
            "needs ec2:DeleteSnapshot on snapshot/snap-1 (scripts/iam/agent.json: "
            "UseTheJobsSnapshots; launcher.json: DeleteTheJobsVolumes)");
}

TEST(MissingPermission, IsOfTheActionThatWasRefused) {
  const std::string text =
      missing_permission("ec2:CreateVolume",
                         "User: u is not authorized to perform: ec2:CreateTags on resource: "
                         "\"arn:a:ec2:r:1:volume/*\"");
  EXPECT_EQ(text.find("needs ec2:CreateTags on volume/* (scripts/iam/agent.json: "), 0U) << text;
  EXPECT_NE(text.find("TagWhatIsMade"), text.npos) << text;
}

TEST(MissingPermission, MayBeAllThatAwsSays) {
  EXPECT_EQ(missing_permission("ssm:GetParameter", ""),
            "needs ssm:GetParameter (scripts/iam/agent.json: ReadSecrets; launcher.json: "
            "ReadTheCodesToken, ReadImage)");
  EXPECT_EQ(missing_permission("sqs:SendMessage", "You are not authorized."),
            "needs sqs:SendMessage");
}

TEST(MissingPermission, WhatIsForbiddenIsNotAskedFor) {
  const std::string text = missing_permission(
      "ec2:DeleteVolume",
      "User: u is not authorized to perform: ec2:DeleteVolume on resource: a with "
      "an explicit deny in a service control policy");
  EXPECT_NE(text.find("denies explicitly"), text.npos) << text;
  EXPECT_EQ(text.find("scripts/iam"), text.npos) << text;
}

TEST(IamDocuments, PlacesAreFilledAndEmptyStatementsLeftOut) {
  const IamDocument document{"x", R"({"Statement": [
      {"Sid": "A", "Action": "s:A", "Resource": ["{none}", "{not}"], "Condition": {"{unknown}": 1}},
      {"Sid": "B", "Action": "s:B", "Resource": ["a", "{two}"], "Condition": {"k/{one}": "{two}"}}
  ]})"};
  const IamValues values{{{"one", "1"}}, {{"none", {}}, {"two", {"b", "c"}}}};
  const auto filled = fill_in(document, values);
  ASSERT_TRUE(filled) << filled.error().message;
  EXPECT_EQ(filled->find("\"A\""), filled->npos);
  EXPECT_NE(filled->find("\"k/1\""), filled->npos) << *filled;
  const auto lacking = fill_in(document, {{}, {{"none", {"x"}}, {"two", {}}}});
  ASSERT_FALSE(lacking);
  EXPECT_NE(lacking.error().message.find("{unknown}"), std::string::npos);
  const IamDocument one{"x", R"({"Statement": [{"Resource": "{lacking}"}]})"};
  EXPECT_FALSE(fill_in(one, values)) << "it is no list";
}

TEST(IamDocuments, ATextThatStandsForItself) {
  EXPECT_EQ(literally("a*b?c$d"), "a${*}b${?}c${$}d");
}

}  // namespace
}  // namespace spotter::wire
