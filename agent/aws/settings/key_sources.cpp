#include "agent/aws/settings/key_sources.hpp"

#include <fstream>
#include <iterator>
#include <string_view>

#include "agent/aws/settings/shared_config.hpp"

namespace spotter::act {
namespace {

std::optional<wire::Credentials> from_profile(Profile profile) {
  if (profile["aws_access_key_id"].empty() || profile["aws_secret_access_key"].empty()) {
    return std::nullopt;
  }
  return wire::Credentials{profile["aws_access_key_id"], profile["aws_secret_access_key"],
                           profile["aws_session_token"], std::nullopt};
}

// Keys may be asked for in plain text only on this machine or its host.
bool is_trusted(std::string_view url) {
  if (url.starts_with("https://")) return true;
  if (!url.starts_with("http://")) return false;
  const std::string_view rest = url.substr(7);
  std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  if (host.find('@') != std::string_view::npos) return false;
  host =
      host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "169.254.170.2" ||
         host == "169.254.170.23" || host == "[fd00:ec2::23]";
}

std::string container_token(const Environment& environment) {
  const std::string path = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (path.empty()) return environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  std::ifstream file(path, std::ios::binary);  // read each time: its writer rotates it
  std::string token{std::istreambuf_iterator<char>(file), {}};
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  return token;
}

std::string container_url(const Environment& environment) {
  const std::string relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!relative.empty()) return "http://169.254.170.2" + relative;
  return environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

}  // namespace

std::optional<wire::Credentials> credentials_from_environment(const Environment& environment) {
  wire::Credentials credentials{environment.get("AWS_ACCESS_KEY_ID"),
                                environment.get("AWS_SECRET_ACCESS_KEY"),
                                environment.get("AWS_SESSION_TOKEN"), std::nullopt};
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty()) {
    return std::nullopt;
  }
  return credentials;
}

std::optional<wire::Credentials> credentials_from_files(const Environment& environment) {
  auto credentials = from_profile(credentials_profile(environment));
  return credentials ? credentials : from_profile(config_profile(environment));
}

Result<std::optional<ContainerEndpoint>> container_endpoint(const Environment& environment) {
  ContainerEndpoint endpoint{container_url(environment), {}};
  if (endpoint.url.empty()) return std::optional<ContainerEndpoint>();
  if (!is_trusted(endpoint.url)) {
    return failure("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor on this host");
  }
  endpoint.token = container_token(environment);
  return std::optional(std::move(endpoint));
}

}  // namespace spotter::act
