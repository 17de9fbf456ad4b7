#include "agent/aws/formats/prices.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "agent/aws/formats/partition.hpp"
#include "agent/base/json.hpp"

namespace spotter::wire {
namespace {

// Nothing: it is none in dollars, or nothing is to be paid.
std::optional<double> dollars_of(const Json& dimension) {
  if (!dimension.is_object() || text_field(dimension, "unit") != "Hrs") return std::nullopt;
  const auto prices = dimension.find("pricePerUnit");
  if (prices == dimension.end() || !prices->is_object()) return std::nullopt;
  const std::string text = text_field(*prices, "USD");
  double dollars = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dollars);
  const bool good = error == std::errc{} && end == text.data() + text.size() && dollars > 0;
  return good ? std::optional(dollars) : std::nullopt;
}

const Json& member(const Json& object, const char* name) {
  static const Json none = Json::object();
  const auto found = object.find(name);
  return found == object.end() || !found->is_object() ? none : *found;
}

// A product is a document of its own, as a text: terms.OnDemand.<offer>.priceDimensions.<rate>.
void find_prices(const Json& product, std::optional<double>& lowest) {
  for (const Json& offer : member(member(product, "terms"), "OnDemand")) {
    if (!offer.is_object()) continue;
    for (const Json& dimension : member(offer, "priceDimensions"))
      if (const auto dollars = dollars_of(dimension); dollars && (!lowest || *dollars < *lowest))
        lowest = dollars;
  }
}

}  // namespace

std::string_view price_list_region(std::string_view region) {
  return partition_of(region).price_list;
}

std::string encode_get_products(std::string_view instance_type, std::string_view region) {
  const std::array<std::pair<const char*, std::string>, 6> wanted = {
      {{"instanceType", std::string(instance_type)},
       {"regionCode", std::string(region)},
       {"operatingSystem", "Linux"},
       {"preInstalledSw", "NA"},
       {"tenancy", "Shared"},
       {"capacitystatus", "Used"}}};
  Json request = {{"ServiceCode", "AmazonEC2"}, {"FormatVersion", "aws_v1"}, {"MaxResults", 10}};
  for (const auto& [field, value] : wanted)
    request["Filters"].push_back({{"Type", "TERM_MATCH"}, {"Field", field}, {"Value", value}});
  return json_text(request);
}

Result<double> decode_get_products(std::string_view json) {
  const auto document = parse_json_object(json);
  if (!document) return failure("the answer of GetProducts is no JSON object");
  const auto list = document->find("PriceList");
  if (list == document->end() || !list->is_array())
    return failure("the answer of GetProducts has no PriceList");
  std::optional<double> lowest;
  for (const Json& product : *list) {
    if (!product.is_string()) continue;
    if (const auto parsed = parse_json_object(product.get<std::string>()))
      find_prices(*parsed, lowest);
  }
  if (!lowest) return failure("the price list has no such machine with a price in dollars");
  return *lowest;
}

}  // namespace spotter::wire
