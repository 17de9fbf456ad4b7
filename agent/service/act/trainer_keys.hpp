// The trainer's identity at AWS: the role that job.yaml names for it, else the one that is made for
// trainers (job/trainer_role.hpp); the instance's own only when job.yaml says so.
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
    std::function<bool()> on_instance;  // the metadata service has said which one this is
  };
  using Variables = std::map<std::string, std::string>;

  // All that the parts refer to must outlive this.
  explicit TrainerKeys(Parts parts);

  // A trainer that an agent before us has started finds us where it found that one.
  void resume() { endpoint_.resume(); }

  // What leads the trainer's SDKs to its credentials. Empty: they find what they find. That is so
  // without a named role where it has our environment anyway (`spotter run`), where job.yaml leads
  // them elsewhere, and where we have only long-term keys or none. Fails when a role that is named
  // cannot be had; where it is the usual one, the trainer has none until it can, and that is said.
  asio::awaitable<CallResult<Variables>> offer();

 private:
  asio::awaitable<KeysResult> load();
  asio::awaitable<KeysResult> load_own();
  asio::awaitable<KeysResult> assume();
  asio::awaitable<CallResult<std::string>> role_arn();
  asio::awaitable<CallResult<Variables>> offer_usual();
  asio::awaitable<void> try_usual();
  bool is_led_elsewhere() const;

  Parts parts_;
  std::string arn_;  // of the role, once it is known
  FreshKeys keys_;
  KeyEndpoint endpoint_;
};

// The ARN of the trainer's role, of the account and the role that we are: "who" has both. Empty: we
// are no role, and job.yaml names no ARN or name. REQUIRES: it has not the instance's own.
std::string trainers_role_arn(const config::Trainer& trainer, const wire::CallerIdentity& who);

// Of an environment that is handed on: who its owner is at AWS.
inline constexpr const char* identity_variables[] = {
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",       "AWS_SESSION_TOKEN", "AWS_PROFILE",
    "AWS_ROLE_ARN",      "AWS_WEB_IDENTITY_TOKEN_FILE", container_uri,       container_relative_uri,
    container_token,     container_token_file};

}  // namespace spotter::act
