#include "agent/aws/formats/partition.hpp"

#include <algorithm>

namespace spotter::wire {
namespace {

// GovCloud has no price list of its own.
constexpr Partition known_partitions[] = {
    {"aws-cn", "cn-", "amazonaws.com.cn", "cn-northwest-1", "cn-north-1",
     "iam.cn-north-1.amazonaws.com.cn", "api.amazonwebservices.com.cn"},
    {"aws-us-gov", "us-gov-", "amazonaws.com", "us-east-1", "us-gov-west-1",
     "iam.us-gov.amazonaws.com", "api.aws"},
    {"aws-eusc", "eusc-", "amazonaws.eu", "eusc-de-east-1", "eusc-de-east-1",
     "iam.eusc-de-east-1.amazonaws.eu", "api.amazonwebservices.eu"},
    {"aws-iso", "us-iso-", "c2s.ic.gov", "us-iso-east-1", "us-iso-east-1",
     "iam.us-iso-east-1.c2s.ic.gov", "api.aws.ic.gov"},
    {"aws-iso-b", "us-isob-", "sc2s.sgov.gov", "us-isob-east-1", "us-isob-east-1",
     "iam.us-isob-east-1.sc2s.sgov.gov", "api.aws.scloud"},
    {"aws-iso-e", "eu-isoe-", "cloud.adc-e.uk", "eu-isoe-west-1", "eu-isoe-west-1",
     "iam.eu-isoe-west-1.cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"},
    {"aws-iso-f", "us-isof-", "csp.hci.ic.gov", "us-isof-south-1", "us-isof-south-1",
     "iam.us-isof-south-1.csp.hci.ic.gov", "api.aws.hci.ic.gov"},
    {"aws", "", "amazonaws.com", "us-east-1", "us-east-1", "iam.amazonaws.com", "api.aws"},
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
