// The trainer's identity at AWS: the role in job.yaml, else the one made for trainers
// (job/trainer_role.hpp); the instance's own only if job.yaml says so.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/job/job.hpp"
#include "agent/service/act/key_endpoint.hpp"

namespace spotter::act {

class TrainerKeys {
 public:
  struct Parts {
    asio::io_context& context;
    const config::Job& job;
    std::string run_directory;
    AwsClient& aws;
    CredentialChain& own;
    std::function<bool()> on_instance;  // the metadata service has returned the instance's id
  };
  using Variables = std::map<std::string, std::string>;

  // REQUIRES: all that the parts refer to outlives this.
  explicit TrainerKeys(Parts parts);

  // Serves a trainer that an earlier agent started, at the same address.
  void resume() { endpoint_.resume(); }

  // Returns variables that lead the trainer's SDKs to its credentials. Empty (the SDKs' defaults):
  // no role is named and the trainer has our environment anyway (`spotter run`), job.yaml sets such
  // variables itself, or we have only long-term credentials or none. Fails when a named role cannot
  // be assumed; with the default role the trainer has none until that works, which is logged.
  asio::awaitable<Result<Variables, CallError>> offer();

 private:
  asio::awaitable<Result<wire::Credentials, CallError>> load();
  asio::awaitable<Result<wire::Credentials, CallError>> load_own();
  asio::awaitable<Result<wire::Credentials, CallError>> assume();
  asio::awaitable<Result<std::string, CallError>> role_arn();
  asio::awaitable<Result<Variables, CallError>> offer_usual();
  asio::awaitable<void> try_usual();
  bool is_led_elsewhere() const;

  Parts parts_;
  std::string arn_;  // of the role, once it is known
  FreshKeys keys_;
  KeyEndpoint endpoint_;
};

// The ARN of the trainer's role, by default in the account and after the name of `who`. Empty: we
// have no role, and job.yaml names none. REQUIRES: the trainer has not the instance's own role.
std::string trainers_role_arn(const config::Trainer& trainer, const wire::CallerIdentity& who);

// Variables that identify their owner at AWS, removed from an environment that is passed on.
inline constexpr const char* identity_variables[] = {
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",       "AWS_SESSION_TOKEN", "AWS_PROFILE",
    "AWS_ROLE_ARN",      "AWS_WEB_IDENTITY_TOKEN_FILE", container_uri,       container_relative_uri,
    container_token,     container_token_file};

}  // namespace spotter::act
