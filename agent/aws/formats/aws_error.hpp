// An AWS service's refusal, and what follows from it.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
#pragma once

#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {

// EC2's <Response><Errors><Error>, the Query protocol's <ErrorResponse><Error>, or JSON's
// {"__type"}. REST-JSON has the code in the header x-amzn-ErrorType: `type`. Fills in code and
// message. Never fails: of garbage it keeps the beginning as the message, and no code.
CallError parse_error(std::string_view body, std::string_view type = {});

// A wrong clock is Permission, too: AWS has no one code for it.
CallError::Kind classify(int status, std::string_view code);

// The error of a 200 that is not what the API documents. The call may have changed something.
CallError unreadable(const Error& error, Repeatable repeatable);

}  // namespace spotter::wire
