// Where the trainer gets credentials: a local HTTP endpoint as ECS and EKS give it to containers,
// so that every AWS SDK finds it by its variables alone. Source:
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
//
// Port and token are kept in the run directory, so that an agent that takes over a trainer serves
// the same address. In between the SDKs retry, and keep using what they have.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "agent/base/result.hpp"
#include "agent/io/local_server.hpp"
#include "agent/service/act/fresh_keys.hpp"

namespace spotter::act {

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

}  // namespace spotter::act
