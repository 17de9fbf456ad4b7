#include "agent/aws/s3/keys.hpp"

#include <curl/curl.h>

#include <memory>

#include "agent/aws/settings/key_sources.hpp"

namespace spotter::s3 {
namespace {

using Maybe = Result<std::optional<wire::Credentials>>;

constexpr std::chrono::minutes refresh_before_expiry{5};
constexpr std::size_t longest_answer = 64U << 10;

struct Local {
  std::string method = "GET";
  std::string url;
  std::string header;
};

struct LocalAnswer {
  long status = 0;
  std::string body;
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& body = *static_cast<std::string*>(self);
  if (body.size() + size * count > longest_answer) return 0;
  body.append(data, size * count);
  return size * count;
}

// One exchange with a service of this machine or its host: no proxy, short limits.
Result<LocalAnswer> exchange(const Local& request) {
  const std::unique_ptr<CURL, void (*)(CURL*)> easy(curl_easy_init(), curl_easy_cleanup);
  LocalAnswer answer;
  curl_slist* headers = nullptr;
  if (!request.header.empty()) headers = curl_slist_append(headers, request.header.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_CONNECTTIMEOUT_MS, 1000L);
  curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, 5000L);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &answer.body);
  const CURLcode code = curl_easy_perform(easy.get());
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  curl_slist_free_all(headers);
  if (code != CURLE_OK) return failure(curl_easy_strerror(code));
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
    const std::string header = token.empty() ? "" : "Authorization: " + token;
    return parsed(exchange({.url = url, .header = header}), "the container's credentials");
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
                               .header = "X-aws-ec2-metadata-token-ttl-seconds: 21600"});
  if (!token || token->status != 200) return std::optional<wire::Credentials>();
  const std::string header = "X-aws-ec2-metadata-token: " + token->body;
  const std::string path = base + "/latest/meta-data/iam/security-credentials/";
  const auto role = exchange({.url = path, .header = header});
  if (!role || role->status != 200) return std::optional<wire::Credentials>();
  const auto names = wire::parse_lines(role->body);
  if (names.empty()) return std::optional<wire::Credentials>();
  return parsed(exchange({.url = path + names.front(), .header = header}), "the instance's role");
}

}  // namespace spotter::s3
