#include "agent/aws/settings/endpoints.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "agent/aws/formats/partition.hpp"
#include "agent/aws/settings/shared_config.hpp"

namespace spotter::act {
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
