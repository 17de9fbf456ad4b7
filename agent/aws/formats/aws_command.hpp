// A call of EC2, Auto Scaling or Batch as AWS's own command line has it, so that it can be shown
// and is the very one that is sent:
//
//   aws ec2 create-fleet --cli-input-json '{...}'
//
// Parameters are named as in the CLI's input. Batch takes them so; query_of() gives them the names
// of the Query API.
#pragma once

#include "agent/aws/formats/services.hpp"

namespace spotter::wire {

struct AwsCommand {
  std::string service;  // "ec2" | "autoscaling" | "batch"
  std::string action;   // CreateFleet
  std::string input;    // a JSON object
  Repeatable repeatable = Repeatable::No;
};

Query query_of(const AwsCommand& command);  // of any but Batch's
HttpCall as_http(const AwsCommand& command);

// Quoted for a shell.
std::string command_of(const AwsCommand& command);

}  // namespace spotter::wire
