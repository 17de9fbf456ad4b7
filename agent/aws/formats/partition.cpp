#include "agent/aws/formats/partition.hpp"

#include <algorithm>

namespace spotter::wire {
namespace {

// GovCloud has no price list of its own.
constexpr Partition known_partitions[] = {
    {"aws-cn", "cn-", "amazonaws.com.cn", "cn-northwest-1", "api.amazonwebservices.com.cn"},
    {"aws-us-gov", "us-gov-", "amazonaws.com", "us-east-1", "api.aws"},
    {"aws-eusc", "eusc-", "amazonaws.eu", "eusc-de-east-1", "api.amazonwebservices.eu"},
    {"aws-iso", "us-iso-", "c2s.ic.gov", "us-iso-east-1", "api.aws.ic.gov"},
    {"aws-iso-b", "us-isob-", "sc2s.sgov.gov", "us-isob-east-1", "api.aws.scloud"},
    {"aws-iso-e", "eu-isoe-", "cloud.adc-e.uk", "eu-isoe-west-1", "api.cloud-aws.adc-e.uk"},
    {"aws-iso-f", "us-isof-", "csp.hci.ic.gov", "us-isof-south-1", "api.aws.hci.ic.gov"},
    {"aws", "", "amazonaws.com", "us-east-1", "api.aws"},
};

}  // namespace

const Partition& partition_of(std::string_view region) {
  return *std::ranges::find_if(
      known_partitions, [&](const Partition& it) { return region.starts_with(it.region_prefix); });
}

bool is_of_aws(std::string_view host) {
  if (host.find_first_of("/@:?#") != host.npos) return false;
  return std::ranges::any_of(known_partitions, [&](const Partition& it) {
    return host.size() > it.suffix.size() && host.ends_with(it.suffix) &&
           host[host.size() - it.suffix.size() - 1] == '.';
  });
}

}  // namespace spotter::wire
