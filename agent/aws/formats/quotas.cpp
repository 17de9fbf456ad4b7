#include "agent/aws/formats/quotas.hpp"

#include <array>
#include <utility>

#include "agent/base/json.hpp"

namespace spotter::wire {
namespace {

constexpr InstanceQuota dl{"L-85EED4F7", "All DL Spot Instance Requests"};
constexpr InstanceQuota f{"L-88CF9481", "All F Spot Instance Requests"};
constexpr InstanceQuota g{"L-3819A6DF", "All G and VT Spot Instance Requests"};
constexpr InstanceQuota inf{"L-B5D1601B", "All Inf Spot Instance Requests"};
constexpr InstanceQuota p{"L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"};
constexpr InstanceQuota p5{"L-C4BD4855", "All P5 Spot Instance Requests"};
constexpr InstanceQuota standard{"L-34B43A08",
                                 "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"};
constexpr InstanceQuota trn{"L-6B0D517C", "All Trn Spot Instance Requests"};
constexpr InstanceQuota x{"L-E3A00192", "All X Spot Instance Requests"};

constexpr InstanceQuota running_dl{"L-6E869C2A", "Running On-Demand DL instances"};
constexpr InstanceQuota running_f{"L-74FC7D96", "Running On-Demand F instances"};
constexpr InstanceQuota running_g{"L-DB2E81BA", "Running On-Demand G and VT instances"};
constexpr InstanceQuota running_inf{"L-1945791B", "Running On-Demand Inf instances"};
constexpr InstanceQuota running_p{"L-417A185B", "Running On-Demand P instances"};
constexpr InstanceQuota running_standard{
    "L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"};
constexpr InstanceQuota running_trn{"L-2C3B7624", "Running On-Demand Trn instances"};
constexpr InstanceQuota running_x{"L-7295265B", "Running On-Demand X instances"};

// Of spot instances, and of those on demand.
constexpr std::array<std::pair<const InstanceQuota*, const InstanceQuota*>, 9> on_demand = {
    {{&dl, &running_dl},
     {&f, &running_f},
     {&g, &running_g},
     {&inf, &running_inf},
     {&p, &running_p},
     {&p5, &running_p},
     {&standard, &running_standard},
     {&trn, &running_trn},
     {&x, &running_x}}};

constexpr std::array<std::pair<std::string_view, const InstanceQuota*>, 23> families = {
    {{"a", &standard},  {"c", &standard}, {"d", &standard}, {"h", &standard}, {"i", &standard},
     {"m", &standard},  {"r", &standard}, {"t", &standard}, {"z", &standard}, {"im", &standard},
     {"is", &standard}, {"dl", &dl},      {"f", &f},        {"g", &g},        {"gr", &g},
     {"vt", &g},        {"inf", &inf},    {"p2", &p},       {"p3", &p},       {"p4", &p},
     {"p5", &p5},       {"trn", &trn},    {"x", &x}}};

}  // namespace

const InstanceQuota* spot_quota_of(std::string_view instance_type) {
  const auto letters = instance_type.substr(0, instance_type.find_first_of("0123456789"));
  const auto with_generation = instance_type.substr(0, letters.size() + 1);
  for (const auto& [family, quota] : families)
    if (family == letters || family == with_generation) return quota;
  return nullptr;
}

const InstanceQuota* on_demand_quota_of(std::string_view instance_type) {
  const InstanceQuota* of_spot = spot_quota_of(instance_type);
  for (const auto& [spot, running] : on_demand)
    if (spot == of_spot) return running;
  return nullptr;
}

std::string encode_get_ec2_quota(std::string_view code) {
  Json request;
  request["ServiceCode"] = "ec2";
  request["QuotaCode"] = std::string(code);
  return json_text(request);
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
