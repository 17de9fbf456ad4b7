// What a call to AWS takes on this machine: credentials, from wherever they come here, and a client
// that signs with them.
#pragma once

#include "agent/aws/aws_client.hpp"
#include "agent/aws/imds_client.hpp"

namespace spotter::command {

// AWS_EC2_METADATA_SERVICE_ENDPOINT, or the instance's own.
sense::ImdsSettings imds_settings(const act::Environment& environment);

class AwsAccess {
 public:
  // The first two must outlive this.
  AwsAccess(io::HttpClient& http, sense::ImdsClient& imds, const act::Environment& environment,
            Region region);
  act::AwsClient& client() { return client_; }
  act::CredentialChain& credentials() { return credentials_; }

 private:
  act::CredentialChain credentials_;
  act::AwsClient client_;
};

}  // namespace spotter::command
