// A call of EC2 or Auto Scaling as AWS's own command line has it, so that it can be shown and is
// the very one that is sent:
//
//   aws ec2 create-fleet --cli-input-json '{...}'
//
// Parameters are named as in the CLI's input; query_of() gives them the names of the Query API.
#pragma once

#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {

struct AwsCommand {
  std::string service;  // "ec2" | "autoscaling"
  std::string action;   // CreateFleet
  std::string input;    // a JSON object
  Repeatable repeatable = Repeatable::No;
};

Query query_of(const AwsCommand& command);

// Quoted for a shell.
std::string command_of(const AwsCommand& command);
std::string command_of(std::string_view service, std::string_view action, std::string_view input);

}  // namespace spotter::wire
