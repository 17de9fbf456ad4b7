#include "agent/aws/settings/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>

#include "agent/aws/formats/partition.hpp"
#include "agent/base/number_text.hpp"

namespace spotter::act {

Environment Environment::of_this_process() {
  std::map<std::string, std::string, std::less<>> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(values));
}

std::string Environment::get(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string() : found->second;
}

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string file_path(const Environment& environment, std::string_view variable,
                      std::string_view name) {
  const std::string given = environment.get(variable);
  if (!given.empty()) return given;
  return environment.get("HOME") + "/.aws/" + std::string(name);
}

std::string profile_name(const Environment& environment) {
  const std::string given = environment.get("AWS_PROFILE");
  return given.empty() ? "default" : given;
}

}  // namespace

Profile parse_profile(std::string_view text, std::string_view section) {
  Profile profile;
  bool inside = false;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trimmed(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      inside = trimmed(line.substr(1, line.find(']') - 1)) == section;
      continue;
    }
    const auto equals = line.find('=');
    const bool nested = raw.front() == ' ' || raw.front() == '\t';
    if (!inside || nested || equals == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, equals));
    if (!name.empty()) profile[std::string(name)] = std::string(trimmed(line.substr(equals + 1)));
  }
  return profile;
}

Profile credentials_profile(const Environment& environment) {
  const std::string path = file_path(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  return parse_profile(contents(path), profile_name(environment));
}

Profile config_profile(const Environment& environment) {
  const std::string text = contents(file_path(environment, "AWS_CONFIG_FILE", "config"));
  const std::string name = profile_name(environment);
  if (name != "default") return parse_profile(text, "profile " + name);
  Profile profile = parse_profile(text, "default");
  return profile.empty() ? parse_profile(text, "profile default") : profile;
}

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

namespace {

// The service's id in variables: upper case, blanks as underscores.
std::string variable(std::string_view service) {
  if (service == "autoscaling") return "AWS_ENDPOINT_URL_AUTO_SCALING";
  if (service == "elasticfilesystem") return "AWS_ENDPOINT_URL_EFS";
  if (service == "servicequotas") return "AWS_ENDPOINT_URL_SERVICE_QUOTAS";
  std::string name = "AWS_ENDPOINT_URL_";
  for (const char letter : service) {
    name += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  return name;
}

bool is_set(const Environment& environment, const char* name) {
  std::string value = environment.get(name);
  std::ranges::transform(value, value.begin(), [](unsigned char it) { return std::tolower(it); });
  return value == "true";
}

// One host for all regions of a partition.
std::string iam_host(const wire::Partition& partition, bool fips, bool dual) {
  const bool gov = partition.name == "aws-us-gov";
  const bool global = partition.name == "aws" || partition.name == "aws-cn";
  std::string host(partition.iam_host);
  if (dual)
    host = (gov      ? "iam.us-gov."
            : global ? "iam.global."
                     : "iam.") +
           std::string(partition.dual_suffix);
  if (fips && !gov) host.insert(3, "-fips");
  return host;
}

// Each differs in its own way. Source: botocore's endpoint-rule-set-1.json of each service.
std::string host_of(std::string_view service, const Region& region, bool fips, bool dual) {
  const wire::Partition& partition = wire::partition_of(region.view());
  if (service == "iam") return iam_host(partition, fips, dual);
  const std::string place = "." + region.str() + ".";
  std::string name(service == "pricing" ? "api.pricing" : service);
  if (service == "s3") {
    return name + (fips ? "-fips" : "") + (dual ? ".dualstack" : "") + place +
           std::string(partition.suffix);
  }
  if (service == "elasticfilesystem" && dual) name = "efs";
  // GovCloud's own hosts are of FIPS, where the service has no other.
  constexpr std::array always_fips{"ec2", "sts", "sns", "autoscaling", "batch", "servicequotas"};
  const bool has_it = !dual && partition.name == "aws-us-gov" &&
                      std::ranges::find(always_fips, service) != always_fips.end();
  if (fips && !has_it)
    name = service == "batch" && !dual && partition.name == "aws" ? "fips." + name : name + "-fips";
  return name + place + std::string(dual ? partition.dual_suffix : partition.suffix);
}

}  // namespace

std::string endpoint(const Environment& environment, std::string_view service,
                     const Region& region) {
  std::string url;
  if (environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") != "true") {
    url = environment.get(variable(service));
    if (url.empty()) url = environment.get("AWS_ENDPOINT_URL");
  }
  if (url.empty()) {
    url = "https://" + host_of(service, region, is_set(environment, "AWS_USE_FIPS_ENDPOINT"),
                               is_set(environment, "AWS_USE_DUALSTACK_ENDPOINT"));
  }
  while (url.ends_with('/')) url.pop_back();
  return url;
}

Region configured_region(const Environment& environment) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    const std::string region = environment.get(name);
    if (!region.empty()) return Region(region);
  }
  Profile profile = config_profile(environment);
  return Region(profile["region"]);
}

}  // namespace spotter::act
