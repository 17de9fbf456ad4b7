// The partitions of AWS: accounts, ARNs and credentials of one mean nothing in another. No I/O.
// Source:
// https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html and
// the SDKs' partitions.json, with which tests/shapes/partitions_test.py compares the table.
#pragma once

#include <string_view>

namespace spotter::wire {

struct Partition {
  std::string_view name;           // of ARNs: aws-cn
  std::string_view region_prefix;  // cn-; of `aws` empty
  std::string_view suffix;         // of hosts: amazonaws.com.cn
  std::string_view price_list;     // the region where the price list is asked for
  std::string_view iam_region;     // IAM is one for all regions: what its requests are signed for
  std::string_view iam_host;
  std::string_view dual_suffix;  // of hosts that have IPv6 as well: api.amazonwebservices.com.cn
};
// `aws` for every region that no other has.
const Partition& partition_of(std::string_view region);

// Is it a host of AWS's own? A host's name alone, without port or path.
bool is_of_aws(std::string_view host);

}  // namespace spotter::wire
