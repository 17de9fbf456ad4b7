#include "tests/emulator/parameters.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/world/fleets.hpp"
#include "tests/world/offers.hpp"
#include "tests/world/service_members.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr const char* get_parameter = "AmazonSSM.GetParameter";
constexpr const char* get_quota = "ServiceQuotasV20190624.GetServiceQuota";
constexpr const char* get_products = "AWSPriceListService.GetProducts";
// The vCPUs of Spot Instances and of On-Demand ones, by families: G and VT, P, Standard, X, F, Inf,
// Trn, DL. Others are there only as files.
// https://docs.aws.amazon.com/general/latest/gr/ec2-service.html#limits_ec2
constexpr const char* of_ec2[] = {
    "L-34B43A08", "L-3819A6DF", "L-7212CCBC", "L-E3A00192", "L-88CF9481", "L-B5D1601B",
    "L-6B0D517C", "L-85EED4F7", "L-1216C47A", "L-DB2E81BA", "L-417A185B", "L-7295265B",
    "L-74FC7D96", "L-1945791B", "L-2C3B7624", "L-6E869C2A", "L-C4BD4855"};
constexpr double quota_without_file = 1152;
// Times a type's spot price in the region's first zone, if the type has no file.
constexpr double on_demand_factor = 3;

world::Reply reply(int status, const Json& body) {
  world::Reply result;
  result.status = status;
  result.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  result.content_type = "application/x-amz-json-1.1";
  return result;
}

world::Reply problem(const std::string& code, const std::string& message, int status = 400) {
  return reply(status, {{"__type", code}, {"message", message}});
}

std::optional<std::string> content(const fs::path& directory, const std::string& name) {
  const bool inside = name.find("..") == name.npos;
  std::ifstream file(directory / name.substr(name.starts_with('/') ? 1 : 0));
  if (!inside || !file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// The value that the request has in this field; empty without it.
std::string asked_for(const HttpRequest& request, const char* field) {
  const Json asked = Json::parse(request.body, nullptr, false);
  const bool there = asked.is_object() && asked.contains(field) && asked[field].is_string();
  return there ? asked[field].get<std::string>() : "";
}

// NAME:SELECTOR asks for a version or a label: each parameter has its first version, without one.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html
world::Reply parameter(const fs::path& directory, const std::string& given,
                       const world::Settings& settings) {
  constexpr std::size_t longest = 2048;
  if (given.empty() || given.size() > longest)
    return problem("ValidationException",
                   "1 validation error detected: Value at 'name' failed to satisfy constraint: "
                   "Member must have length between 1 and 2048");
  const std::string name = given.substr(0, given.find(':'));
  const std::string selector = given.substr(name.size());
  const bool home = !settings.foreign_images;
  auto value = content(home ? directory : directory / settings.region.str(), name);
  if (!value && name.starts_with("/aws/service/"))
    value = world::local_image(settings, "ami-0123456789abcdef0");
  if (!value) return problem("ParameterNotFound", "");
  if (!selector.empty() && selector != ":1") return problem("ParameterVersionNotFound", "");
  const std::string whose = name.starts_with("/aws/") ? "" : settings.account;
  nlohmann::json shown = {{"Name", name},
                          {"Type", "String"},
                          {"Value", *value},
                          {"Version", 1},
                          {"DataType", "text"},
                          {"ARN", "arn:aws:ssm:" + settings.region.str() + ":" + whose +
                                      ":parameter" + (name.starts_with('/') ? "" : "/") + name}};
  if (!selector.empty()) shown["Selector"] = selector;
  return reply(200, {{"Parameter", shown}});
}

world::Reply quota(const fs::path& directory, const std::string& code) {
  const auto value = content(directory, code);
  if (!value && std::ranges::count(of_ec2, code) == 0)
    return problem("NoSuchResourceException",
                   "The request failed because the specified service "
                   "does not exist or has no such quota.");
  return reply(200, {{"Quota",
                      {{"ServiceCode", "ec2"},
                       {"QuotaCode", code},
                       {"Unit", "None"},
                       {"Adjustable", true},
                       {"Value", value ? std::stod(*value) : quota_without_file}}}});
}

// A value of the request's filters. Empty without it.
std::string filter(const Json& asked, const char* field) {
  if (!asked.contains("Filters") || !asked["Filters"].is_array()) return "";
  for (const Json& each : asked["Filters"])
    if (each.is_object() && each.value("Field", Json()) == field)
      if (const Json value = each.value("Value", Json()); value.is_string()) return value;
  return "";
}

// Each product is a document in a text. Its attributes and terms are only those that name its
// price.
world::Reply products(const fs::path& directory, const std::string& body) {
  const Json asked = Json::parse(body, nullptr, false);
  if (!asked.is_object() || asked.value("ServiceCode", Json()) != "AmazonEC2")
    return problem("InvalidParameterException", "ServiceCode");
  std::string type = filter(asked, "instanceType");
  const std::string region = filter(asked, "regionCode");
  // Nothing else has a price here.
  constexpr std::array<std::array<const char*, 2>, 4> ours = {{{"operatingSystem", "Linux"},
                                                               {"preInstalledSw", "NA"},
                                                               {"tenancy", "Shared"},
                                                               {"capacitystatus", "Used"}}};
  for (const auto& [field, only] : ours)
    if (const std::string other = filter(asked, field); !other.empty() && other != only) type = "";
  auto file = content(directory / region, type);
  if (!file) file = content(directory, type);
  const double spot = world::usual_price(InstanceType(type), Zone(region + "a"));
  const double dollars = file ? std::stod(*file) : spot * on_demand_factor;
  const Json rate = {{"unit", "Hrs"}, {"pricePerUnit", {{"USD", std::to_string(dollars)}}}};
  const Json offer = {{"sku", "EMULATED"}, {"priceDimensions", {{"EMULATED.J.6", rate}}}};
  const Json product = {
      {"product", {{"sku", "EMULATED"}, {"attributes", {{"instanceType", type}}}}},
      {"serviceCode", "AmazonEC2"},
      {"terms", {{"OnDemand", {{"EMULATED.J", offer}}}}}};
  Json list = Json::array();
  if (type.find('.') != type.npos && !region.empty()) list.push_back(product.dump());
  return reply(200, {{"FormatVersion", "aws_v1"}, {"PriceList", list}});
}

}  // namespace

std::string Parameters::service_of(const HttpRequest& request) {
  const auto target = request.header("x-amz-target");
  if (target.starts_with("AmazonSSM.")) return "ssm";
  if (target.starts_with("AWSPriceListService.")) return "pricing";
  return target.starts_with("ServiceQuotasV20190624.") ? "servicequotas" : "";
}

world::AccessRequest Parameters::needed_access(const HttpRequest& request,
                                               const world::Settings& settings) {
  const std::string service = service_of(request);
  const auto target = request.header("x-amz-target");
  const std::string action = service + ":" + std::string(target.substr(target.find('.') + 1));
  const std::string arn = "arn:aws:" + service + ":" + settings.region.str() + ":";
  if (service == "servicequotas")
    return {action, arn + settings.account + ":ec2/" + asked_for(request, "QuotaCode")};
  if (service == "pricing") return {action, "*"};
  const std::string given = asked_for(request, "Name"), name = given.substr(0, given.find(':'));
  const std::string whose = name.starts_with("/aws/") ? ":" : settings.account + ":";
  return {action, arn + whose + "parameter" + (name.starts_with('/') ? "" : "/") + name};
}

world::Reply Parameters::refuse(const Refusal& why) {
  const Refusal said = in_json(why);
  return problem(said.code, said.message, 400);
}

world::Reply Parameters::answer(const HttpRequest& request, const world::Settings& settings) const {
  const auto action = request.header("x-amz-target");
  const Json asked = Json::parse(request.body, nullptr, false);
  constexpr std::array<std::array<const char*, 3>, 3> services = {
      {{get_parameter, "ssm", "ValidationException"},
       {get_quota, "service-quotas", "IllegalArgumentException"},
       {get_products, "pricing", "InvalidParameterException"}}};
  for (const auto& [target, service, code] : services)
    if (const std::string name = target; action == name)
      if (const auto why = world::refuse_members(service, name.substr(name.find('.') + 1), asked))
        return problem(code, *why);
  if (action == get_parameter)
    return parameter(directory_ / "ssm", asked_for(request, "Name"), settings);
  if (action == get_quota) return quota(directory_ / "quotas", asked_for(request, "QuotaCode"));
  if (action == get_products) return products(directory_ / "prices", request.body);
  return problem("UnknownOperationException", "");
}

}  // namespace spotter::emulator
