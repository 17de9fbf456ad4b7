#include "agent/aws/formats/services.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

TEST(Sns, a_message_to_a_topic) {
  const Query query = encode(Publish{"arn:aws:sns:us-west-2:123456789012:t", "a b", "c & d"});
  EXPECT_EQ(query.service, "sns");
  EXPECT_EQ(query.region, Region("us-west-2"));
  EXPECT_EQ(form_body(query),
            "Action=Publish&Message=c%20%26%20d&Subject=a%20b&TopicArn="
            "arn%3Aaws%3Asns%3Aus-west-2%3A123456789012%3At&Version=2010-03-31");
}

TEST(Sns, a_subject_is_what_sns_takes_for_one) {
  const Query query =
      encode(Publish{"arn:aws:sns:us-west-2:1:t", "a\nb\xc3\xa9" + std::string(200, 'x'), "m"});
  EXPECT_EQ(query.parameters.at("Subject"), "a?b??" + std::string(95, 'x'));
}

TEST(Sns, the_answer) {
  const auto id = decode<Publish>(
      "<PublishResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><PublishResult>"
      "<MessageId>567910cd</MessageId></PublishResult><ResponseMetadata><RequestId>d74b8436"
      "</RequestId></ResponseMetadata></PublishResponse>");
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(*id, "567910cd");
  EXPECT_FALSE(decode<Publish>("<PublishResponse><PublishResult/></PublishResponse>"));
}

}  // namespace
}  // namespace spotter::wire
