// The AWS SDKs' standard credential chain, without its network of assumed roles: environment
// variables, the shared credentials and config files, a container's endpoint, the instance's role.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "agent/aws/formats/imds.hpp"
#include "agent/aws/settings/environment.hpp"
#include "agent/aws/settings/key_sources.hpp"
#include "agent/base/names.hpp"
#include "agent/base/result.hpp"
#include "agent/io/http.hpp"

namespace spotter::act {

wire::WallTime system_time();  // whole seconds

class CredentialChain {
 public:
  // The instance's role, from the metadata service; absent: the instance has none. Handed in
  // because act does not know sense.
  using RoleSource = std::function<asio::awaitable<Result<std::optional<wire::Credentials>>>()>;
  using WallClock = std::function<wire::WallTime()>;

  CredentialChain(io::HttpClient& http, Environment environment, RoleSource role = {},
                  WallClock clock = {});

  // Cached; asked for again 5 minutes before they expire (a failure then is no failure while the
  // old ones are valid). Fails when no source has any, saying which were asked.
  asio::awaitable<Result<wire::Credentials>> get();

  // The service called them expired: the next get() asks the source again.
  void expire();

 private:
  asio::awaitable<Result<std::optional<wire::Credentials>>> load();
  asio::awaitable<Result<std::optional<wire::Credentials>>> from_container(
      ContainerEndpoint endpoint);
  bool valid_for(std::chrono::seconds margin) const;

  io::HttpClient& http_;
  Environment environment_;
  RoleSource role_;
  WallClock clock_;
  std::optional<wire::Credentials> cached_;
};

}  // namespace spotter::act
