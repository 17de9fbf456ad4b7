#include "agent/aws/formats/quotas.hpp"

#include <array>
#include <utility>

#include "agent/base/json.hpp"

namespace spotter::wire {
namespace {

constexpr SpotQuota dl{"L-85EED4F7", "All DL Spot Instance Requests"};
constexpr SpotQuota f{"L-88CF9481", "All F Spot Instance Requests"};
constexpr SpotQuota g{"L-3819A6DF", "All G and VT Spot Instance Requests"};
constexpr SpotQuota inf{"L-B5D1601B", "All Inf Spot Instance Requests"};
constexpr SpotQuota p{"L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"};
constexpr SpotQuota p5{"L-C4BD4855", "All P5 Spot Instance Requests"};
constexpr SpotQuota standard{"L-34B43A08",
                             "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"};
constexpr SpotQuota trn{"L-6B0D517C", "All Trn Spot Instance Requests"};
constexpr SpotQuota x{"L-E3A00192", "All X Spot Instance Requests"};

constexpr std::array<std::pair<std::string_view, const SpotQuota*>, 23> families = {
    {{"a", &standard},  {"c", &standard}, {"d", &standard}, {"h", &standard}, {"i", &standard},
     {"m", &standard},  {"r", &standard}, {"t", &standard}, {"z", &standard}, {"im", &standard},
     {"is", &standard}, {"dl", &dl},      {"f", &f},        {"g", &g},        {"gr", &g},
     {"vt", &g},        {"inf", &inf},    {"p2", &p},       {"p3", &p},       {"p4", &p},
     {"p5", &p5},       {"trn", &trn},    {"x", &x}}};

}  // namespace

const SpotQuota* spot_quota_of(std::string_view instance_type) {
  const auto letters = instance_type.substr(0, instance_type.find_first_of("0123456789"));
  const auto with_generation = instance_type.substr(0, letters.size() + 1);
  for (const auto& [family, quota] : families)
    if (family == letters || family == with_generation) return quota;
  return nullptr;
}

std::string encode_get_ec2_quota(std::string_view code) {
  Json request;
  request["ServiceCode"] = "ec2";
  request["QuotaCode"] = std::string(code);
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<double> decode_get_ec2_quota(std::string_view json) {
  const auto document = parse_json_object(json);
  if (!document) return failure("the answer of GetServiceQuota is no JSON object");
  const auto quota = document->find("Quota");
  if (quota == document->end() || !quota->is_object())
    return failure("the answer of GetServiceQuota has no Quota");
  const auto value = quota->find("Value");
  if (value == quota->end() || !value->is_number())
    return failure("the answer of GetServiceQuota has no Value");
  return value->get<double>();
}

}  // namespace spotter::wire
