#include "agent/aws/credentials.hpp"

#include "agent/aws/settings/key_sources.hpp"

namespace spotter::act {
namespace {

using MaybeCredentials = Result<std::optional<wire::Credentials>>;

// As the SDKs do: early enough for a source that is down for a while.
constexpr std::chrono::minutes refresh_before_expiry{5};

}  // namespace

wire::WallTime system_time() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
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
  const auto container = container_endpoint(environment_);
  if (!container) co_return tl::unexpected(container.error());
  if (*container) {
    auto pending = from_container(**container);
    co_return co_await std::move(pending);
  }
  if (!role_ || environment_.get("AWS_EC2_METADATA_DISABLED") == "true") {
    co_return std::optional<wire::Credentials>();
  }
  auto pending = role_();
  co_return co_await std::move(pending);
}

asio::awaitable<MaybeCredentials> CredentialChain::from_container(ContainerEndpoint endpoint) {
  io::HttpRequest request;
  request.url = std::move(endpoint.url);
  if (!endpoint.token.empty()) request.headers.emplace_back("Authorization", endpoint.token);
  request.connect_timeout = std::chrono::seconds{1};  // on this host, as IMDS is
  request.timeout = std::chrono::seconds{5};
  request.use_proxy = false;
  auto pending = http_.send(std::move(request));
  Result<io::HttpResponse, CallError> answer = co_await std::move(pending);
  if (!answer) co_return failure("the container's credentials: " + answer.error().message);
  if (answer->status != 200) {
    co_return failure("the container's credentials: HTTP " + std::to_string(answer->status));
  }
  auto credentials = wire::parse_credentials(answer->body);
  if (!credentials) co_return tl::unexpected(credentials.error());
  co_return std::optional(std::move(*credentials));
}

}  // namespace spotter::act
