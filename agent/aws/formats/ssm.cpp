#include "agent/aws/formats/ssm.hpp"

#include "agent/base/json.hpp"

namespace spotter::wire {

std::string encode_get_parameter(std::string_view name) {
  Json request;
  request["Name"] = std::string(name);
  request["WithDecryption"] = true;
  return json_text(request);
}

Result<std::string> decode_get_parameter(std::string_view json) {
  const auto document = parse_json_object(json);
  if (!document) return failure("the answer of GetParameter is no JSON object");
  const auto parameter = document->find("Parameter");
  if (parameter == document->end() || !parameter->is_object()) {
    return failure("the answer of GetParameter has no Parameter");
  }
  const auto value = parameter->find("Value");
  if (value == parameter->end() || !value->is_string()) {
    return failure("the answer of GetParameter has no Value");
  }
  return value->get<std::string>();
}

}  // namespace spotter::wire
