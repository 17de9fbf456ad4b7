// Where a service answers.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
#pragma once

#include <string>
#include <string_view>

#include "agent/aws/settings/environment.hpp"
#include "agent/base/names.hpp"

namespace spotter::act {

// AWS_ENDPOINT_URL_<SERVICE>, else AWS_ENDPOINT_URL (both unless
// AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is "true"), else https://SERVICE.REGION.SUFFIX, the suffix
// that of the region's partition (aws/formats/partition.hpp). AWS_USE_FIPS_ENDPOINT and
// AWS_USE_DUALSTACK_ENDPOINT ("true") choose the host that AWS has for them, as the SDKs'
// endpoint rules do. Without a trailing slash.
std::string endpoint(const Environment& environment, std::string_view service,
                     const Region& region);

// AWS_REGION, else AWS_DEFAULT_REGION, else the profile's `region` in the config file, else empty.
Region configured_region(const Environment& environment);

}  // namespace spotter::act
