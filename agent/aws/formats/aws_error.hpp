// An AWS service's refusal, and what follows from it.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
#pragma once

#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {

struct AwsError {
  std::string code;  // InvalidVolume.NotFound; empty when the body is no error document
  std::string message;
  std::string request_id;
};

enum class ErrorClass {
  Throttled,           // refused for the rate: later
  Transient,           // the service's own trouble: later
  ExpiredCredentials,  // new credentials, then again
  ClockSkew,           // our clock is wrong: again with the service's
  NotFound,            // no such thing, or not yet (EC2 is eventually consistent)
  Permission,          // an administrator has to act
  DryRun,              // DryRun was asked for, and the call would have succeeded
  Other,               // the request itself is wrong, or the thing's state does not allow it
};

// EC2's <Response><Errors><Error>, the Query protocol's <ErrorResponse><Error>, or JSON's
// {"__type"}. REST-JSON has the code in the header x-amzn-ErrorType: `type`. Never fails: of
// garbage it keeps the beginning as the message.
AwsError parse_error(std::string_view body, std::string_view type = {});

ErrorClass classify(int status, std::string_view code);

// The error of a 200 that is not what the API documents. The call may have changed something.
CallError unreadable(const Error& error, Repeatable repeatable);

}  // namespace spotter::wire
