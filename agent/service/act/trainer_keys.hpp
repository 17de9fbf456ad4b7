// Temporary credentials that stay valid long enough to pass on: loaded once for all callers, and
// again well before they expire.
#pragma once

#include "agent/aws/aws_client.hpp"
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/config/job.hpp"
#include "agent/io/local_server.hpp"

namespace spotter::act {

// Threading: the io_context's one thread. Must outlive the io_context's last run.
class FreshKeys {
 public:
  using Load = std::function<asio::awaitable<Result<wire::Credentials, CallError>>()>;

  FreshKeys(asio::io_context& context, Load load, WallClock clock = system_time);

  // Returns valid credentials at once, and reloads old ones in the background; waits only when
  // there are none. A failed reload is hidden while the old ones are valid. Returns the same
  // failure for two seconds without another try.
  asio::awaitable<Result<wire::Credentials, CallError>> get();

 private:
  bool valid_for(std::chrono::seconds margin) const;
  void begin();
  asio::awaitable<void> reload();

  asio::io_context& context_;
  Load load_;
  WallClock clock_;
  asio::steady_timer loaded_;  // never expires: its cancellation wakes the waiting callers
  bool loading_ = false;
  std::optional<wire::Credentials> keys_;
  CallError error_;
  std::chrono::steady_clock::time_point not_before_{};
};

// The trainer's source of credentials: a local HTTP endpoint as ECS and EKS give it to containers,
// so that every AWS SDK finds it by its variables alone. Source:
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
//
// Port and token are kept in the run directory, so that an agent that takes over a trainer serves
// the same address. In between the SDKs retry, and keep using what they have. As a service's, the
// socket is kept by process 1 meanwhile: nobody else can listen there, and get the token.

class KeyEndpoint {
 public:
  struct Place {
    std::string run_directory;
    std::string user;  // the trainer's: only this user may read the token
  };

  // `role`: the ARN in the answers; empty: none. REQUIRES: `keys` outlives this.
  KeyEndpoint(asio::io_context& context, Place place, FreshKeys& keys,
              std::function<std::string()> role);

  // Opens it at an earlier agent's address, if there was one; tries each second until it can.
  void resume();
  // Opens it if necessary; returns the variables for SDKs. Old ones (botocore before 1.34) read the
  // token from its variable, not from its file.
  Result<std::map<std::string, std::string>> open();

 private:
  asio::awaitable<void> bind_again();
  asio::awaitable<io::LocalResponse> answer(io::LocalRequest request);
  bool remembered();
  void take_kept();  // process 1's, where it has the socket of the remembered port
  Result<void> remember();
  std::string token_file() const { return place_.run_directory + "/aws-token"; }

  asio::io_context& context_;
  Place place_;
  FreshKeys& keys_;
  std::function<std::string()> role_;
  io::LocalServer server_;
  std::string token_;  // "PORT-" and 64 hexadecimal digits, so that one file holds both
  std::uint16_t port_ = 0;
};

inline constexpr const char* container_uri = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
inline constexpr const char* container_relative_uri = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
inline constexpr const char* container_token = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
inline constexpr const char* container_token_file = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";

// The trainer's identity at AWS: the role in job.yaml, else the one made for trainers
// (config/trainer_role.hpp); the instance's own only if job.yaml says so.

class TrainerKeys {
 public:
  struct Parts {
    asio::io_context& context;
    const config::Job& job;
    std::string run_directory;
    AwsClient& aws;
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

// Variables that identify their owner at AWS, removed from an environment that is passed on.
inline constexpr const char* identity_variables[] = {
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",       "AWS_SESSION_TOKEN", "AWS_PROFILE",
    "AWS_ROLE_ARN",      "AWS_WEB_IDENTITY_TOKEN_FILE", container_uri,       container_relative_uri,
    container_token,     container_token_file};

}  // namespace spotter::act
