#include "agent/aws/s3/keys.hpp"

#include <string_view>
#include <utility>

#include "agent/aws/settings/settings.hpp"
#include "agent/curl/easy.hpp"

namespace spotter::s3 {
namespace {

using Maybe = Result<std::optional<wire::Credentials>>;

constexpr std::chrono::minutes refresh_before_expiry{5};
constexpr std::size_t longest_answer = 64U << 10;

struct Local {
  std::string method = "GET";
  std::string url;
  curl::Headers headers;
};

struct LocalAnswer final : curl::Sink {
  int status = 0;
  std::string body;

  bool take_header(std::string_view) override { return true; }
  bool take_body(std::string_view bytes) override {
    if (body.size() + bytes.size() > longest_answer) return false;
    body += bytes;
    return true;
  }
};

// One exchange with a service of this machine or its host: no proxy, short limits.
Result<LocalAnswer> exchange(const Local& request) {
  curl::Easy easy(curl::TrustStore::of_this_machine(),
                  {.connect = std::chrono::seconds{1}, .whole = std::chrono::seconds{5}});
  LocalAnswer answer;
  easy.ignore_proxy();
  easy.hand_to(answer);
  easy.set_url(request.url);
  easy.set_headers(request.headers);
  easy.set_method(request.method);
  const CURLcode code = easy.perform();
  if (code != CURLE_OK) return failure(easy.explain(code));
  answer.status = easy.status();
  return answer;
}

Maybe parsed(const Result<LocalAnswer>& answer, const std::string& source) {
  if (!answer) return failure(source + ": " + answer.error().message);
  if (answer->status != 200) return failure(source + ": HTTP " + std::to_string(answer->status));
  auto credentials = wire::parse_credentials(answer->body);
  if (!credentials) return tl::unexpected(credentials.error());
  return std::optional(std::move(*credentials));
}

}  // namespace

Keys::Keys(act::Environment environment, WallClock clock)
    : environment_(std::move(environment)), clock_(std::move(clock)) {}

Result<wire::Credentials> Keys::get() {
  if (valid_for(refresh_before_expiry)) return *cached_;
  auto loaded = load();
  if (loaded && *loaded) {
    cached_ = std::move(**loaded);
    return *cached_;
  }
  if (valid_for(std::chrono::seconds{0})) return *cached_;
  if (!loaded) return tl::unexpected(loaded.error());
  return failure(
      "neither in AWS_ACCESS_KEY_ID, nor in ~/.aws, nor from a container's endpoint, nor from the "
      "instance's role; a public bucket is read without any when it is called anonymous");
}

bool Keys::valid_for(std::chrono::seconds margin) const {
  if (!cached_) return false;
  return !cached_->expiration || *cached_->expiration - clock_() > margin;
}

Maybe Keys::load() const {
  if (auto found = act::credentials_from_environment(environment_)) return found;
  if (auto found = act::credentials_from_files(environment_)) return found;
  const auto container = act::container_endpoint(environment_);
  if (!container) return tl::unexpected(container.error());
  if (*container) {
    const auto& [url, token] = **container;
    curl::Headers headers;
    if (!token.empty()) headers.emplace_back("Authorization", token);
    return parsed(exchange({.url = url, .headers = std::move(headers)}),
                  "the container's credentials");
  }
  if (environment_.get("AWS_EC2_METADATA_DISABLED") == "true") {
    return std::optional<wire::Credentials>();
  }
  return from_role();
}

// IMDSv2. That nothing answers there only means that this is no instance.
Maybe Keys::from_role() const {
  std::string base = environment_.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (base.empty()) base = "http://169.254.169.254";
  while (base.ends_with('/')) base.pop_back();
  const auto token = exchange({.method = "PUT",
                               .url = base + "/latest/api/token",
                               .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}}});
  if (!token || token->status != 200) return std::optional<wire::Credentials>();
  const curl::Headers headers{{"X-aws-ec2-metadata-token", token->body}};
  const std::string path = base + "/latest/meta-data/iam/security-credentials/";
  const auto role = exchange({.url = path, .headers = headers});
  if (!role || role->status != 200) return std::optional<wire::Credentials>();
  const auto names = wire::parse_lines(role->body);
  if (names.empty()) return std::optional<wire::Credentials>();
  return parsed(exchange({.url = path + names.front(), .headers = headers}), "the instance's role");
}

}  // namespace spotter::s3
