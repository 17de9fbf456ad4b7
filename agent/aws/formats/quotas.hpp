// Service Quotas' GetServiceQuota (JSON 1.1), and which quota counts which instances. No I/O.
// Sources:
// https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html and
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-quotas.html,
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-on-demand-instances.html
#pragma once

#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

// In vCPUs of all spot, or of all on-demand, instances of its families that the account has at
// once, in one region. New accounts have 0 of those with GPUs.
struct InstanceQuota {
  std::string_view code;  // L-3819A6DF
  std::string_view name;  // All G and VT Spot Instance Requests
};
// nullptr: of a family that is not known here.
const InstanceQuota* spot_quota_of(std::string_view instance_type);
const InstanceQuota* on_demand_quota_of(std::string_view instance_type);

std::string encode_get_ec2_quota(std::string_view code);
Result<double> decode_get_ec2_quota(std::string_view json);

}  // namespace spotter::wire
