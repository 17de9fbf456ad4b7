#include "agent/aws/formats/aws_error.hpp"

#include <gtest/gtest.h>

#include "agent/aws/formats/services.hpp"

namespace spotter::wire {
namespace {

TEST(AwsError, ReadsEc2sForm) {
  const CallError error = parse_error(R"(<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>InvalidVolume.NotFound</Code>
<Message>The volume 'vol-1' does not exist.</Message>
</Error></Errors><RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>)");
  EXPECT_EQ(error.code, "InvalidVolume.NotFound");
  EXPECT_EQ(error.message, "The volume 'vol-1' does not exist.");
}

TEST(AwsError, ReadsTheQueryProtocolsAndJsonsForms) {
  const CallError query = parse_error(
      "<ErrorResponse "
      "xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><Error><Type>Sender"
      "</Type><Code>Throttling</Code><Message>Rate "
      "exceeded</Message></Error><RequestId>r</RequestId>"
      "</ErrorResponse>");
  EXPECT_EQ(query.code, "Throttling");
  const CallError json =
      parse_error(R"({"__type":"com.amazonaws.ssm#ParameterNotFound","message":"gone"})");
  EXPECT_EQ(json.code, "ParameterNotFound");
  EXPECT_EQ(json.message, "gone");
}

TEST(AwsError, KeepsTheBeginningOfGarbage) {
  for (const char* body : {"", "<html>502\n</html>", "{\"half\":", "<Response><Errors><Err"}) {
    const CallError error = parse_error(body);
    EXPECT_TRUE(error.code.empty()) << body;
    EXPECT_EQ(error.message.empty(), *body == '\0') << body;
  }
}

TEST(AwsError, IsClassified) {
  using Kind = CallError::Kind;
  EXPECT_EQ(classify(503, "RequestLimitExceeded"), Kind::Throttled);
  EXPECT_EQ(classify(429, ""), Kind::Throttled);
  EXPECT_EQ(classify(500, "InternalError"), Kind::Transient);
  EXPECT_EQ(classify(502, ""), Kind::Transient);
  EXPECT_EQ(classify(400, "ExpiredToken"), Kind::ExpiredCredentials);
  EXPECT_EQ(classify(400, "RequestExpired"), Kind::Permission);
  EXPECT_EQ(classify(401, "AuthFailure"), Kind::Permission);
  EXPECT_EQ(classify(400, "InvalidVolume.NotFound"), Kind::NotFound);
  EXPECT_EQ(classify(403, "UnauthorizedOperation"), Kind::Permission);
  EXPECT_EQ(classify(412, "DryRunOperation"), Kind::DryRun);
  EXPECT_EQ(classify(400, "IncorrectState"), Kind::Other);
}

TEST(Ssm, ReadsTheParameterAndNeverQuotesIt) {
  const HttpCall call = encode(GetParameter{"/wandb/key"});
  EXPECT_EQ(call.body, R"({"Name":"/wandb/key","WithDecryption":true})");
  EXPECT_EQ(call.subject, "/wandb/key");
  EXPECT_EQ(decode<GetParameter>(R"({"Parameter":{"Name":"/k","Value":"s3cret"}})").value(),
            "s3cret");
  for (const char* broken :
       {R"({"Parameter":{"Value":"s3cret")", R"({"Parameter":"s3cret"})",
        R"({"Parameter":{"Value":["s3cret"]}})", R"({"Parameter":{"Value":null,"V":"s3cret"}})"}) {
    const auto read = decode<GetParameter>(broken);
    ASSERT_FALSE(read) << broken;
    EXPECT_EQ(read.error().message.find("s3cret"), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace spotter::wire
