// Credentials of a role, from STS, and as programs in a container are given them. As in
// ec2_query.hpp. Sources: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
// and https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
#pragma once

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/imds.hpp"

namespace spotter::wire {

struct AssumeRole {
  using Answer = Credentials;  // always with their expiration
  std::string role;            // ARN
  std::string session;         // 2 to 64 of [A-Za-z0-9_=,.@-]: CloudTrail shows it
  // An hour is what a role may always be had for, and the most from another role.
  std::chrono::seconds duration{3600};
};

Query encode(const AssumeRole& request);

// {"AccessKeyId", "SecretAccessKey", "Token", "Expiration", "RoleArn"}, the last unless `role` is
// empty. REQUIRES: an expiration; SDKs take none for an error.
std::string container_credentials(const Credentials& credentials, std::string_view role);

// {"code", "message"}: as SDKs expect it of such an endpoint with a status of 4xx or 5xx.
std::string container_error(std::string_view code, std::string_view message);

}  // namespace spotter::wire
