#include "agent/act/aws/credentials.hpp"

#include <fstream>
#include <iterator>
#include <string_view>

#include "agent/act/aws/shared_config.hpp"

namespace spotter::act {
namespace {

using MaybeCredentials = Result<std::optional<wire::Credentials>>;

// As the SDKs do: early enough for a source that is down for a while.
constexpr std::chrono::minutes refresh_before_expiry{5};

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

wire::WallTime system_time() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
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

CredentialChain::CredentialChain(io::HttpClient& http, Environment environment, RoleSource role,
                                 WallClock clock)
    : http_(http),
      environment_(std::move(environment)),
      role_(std::move(role)),
      clock_(clock ? std::move(clock) : system_time) {}

asio::awaitable<Result<wire::Credentials>> CredentialChain::get() {
  if (valid_for(refresh_before_expiry)) co_return *cached_;
  auto pending = load();
  MaybeCredentials loaded = co_await std::move(pending);
  if (loaded && *loaded) {
    cached_ = std::move(**loaded);
    co_return *cached_;
  }
  if (valid_for(std::chrono::seconds{0})) co_return *cached_;
  if (!loaded) co_return tl::unexpected(loaded.error());
  co_return failure(
      "no AWS credentials: neither in AWS_ACCESS_KEY_ID, nor in ~/.aws, nor from a container's "
      "endpoint, nor from the instance's role. Give the instance a role.");
}

void CredentialChain::expire() { cached_.reset(); }

bool CredentialChain::valid_for(std::chrono::seconds margin) const {
  if (!cached_) return false;
  return !cached_->expiration || *cached_->expiration - clock_() > margin;
}

asio::awaitable<MaybeCredentials> CredentialChain::load() {
  if (auto found = credentials_from_environment(environment_)) co_return found;
  if (auto found = credentials_from_files(environment_)) co_return found;
  if (!container_url(environment_).empty()) {
    auto pending = from_container();
    co_return co_await std::move(pending);
  }
  if (!role_ || environment_.get("AWS_EC2_METADATA_DISABLED") == "true") {
    co_return std::optional<wire::Credentials>();
  }
  auto pending = role_();
  co_return co_await std::move(pending);
}

asio::awaitable<MaybeCredentials> CredentialChain::from_container() {
  io::HttpRequest request;
  request.url = container_url(environment_);
  if (!is_trusted(request.url)) {
    co_return failure("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor on this host");
  }
  const std::string token = container_token(environment_);
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  request.connect_timeout = std::chrono::seconds{1};  // on this host, as IMDS is
  request.timeout = std::chrono::seconds{5};
  request.use_proxy = false;
  auto pending = http_.send(std::move(request));
  io::HttpResult answer = co_await std::move(pending);
  if (!answer) co_return failure("the container's credentials: " + answer.error().message);
  if (answer->status != 200) {
    co_return failure("the container's credentials: HTTP " + std::to_string(answer->status));
  }
  auto credentials = wire::parse_credentials(answer->body);
  if (!credentials) co_return tl::unexpected(credentials.error());
  co_return std::optional(std::move(*credentials));
}

}  // namespace spotter::act
