#include "agent/aws/settings/endpoints.hpp"

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

}  // namespace

std::string endpoint(const Environment& environment, std::string_view service,
                     const Region& region) {
  std::string url;
  if (environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") != "true") {
    url = environment.get(variable(service));
    if (url.empty()) url = environment.get("AWS_ENDPOINT_URL");
  }
  if (url.empty() && service == "iam")
    url = "https://" + std::string(wire::partition_of(region.view()).iam_host);
  if (url.empty()) {
    const std::string_view host = service == "pricing" ? "api.pricing" : service;
    url = "https://" + std::string(host) + "." + region.str() + "." +
          std::string(wire::partition_of(region.view()).suffix);
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
