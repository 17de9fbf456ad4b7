// Amazon SNS: one message to a topic, in the region of the topic. As in ec2_query.hpp. Source:
// https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
#pragma once

#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {

struct Publish {
  using Answer = std::string;  // the message's id
  std::string topic;           // ARN
  std::string subject;         // what a mail has: 100 characters of ASCII at most, cut and cleaned
  std::string message;         // UTF-8, 256 KiB at most
};

Query encode(const Publish& request);

}  // namespace spotter::wire
