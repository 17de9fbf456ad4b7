#include "tests/emulator/parameters.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

namespace spotter::emulator {
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr std::string_view service = "AmazonSSM.";

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

std::optional<std::string> value_of(const fs::path& directory, const std::string& name) {
  const bool inside = name.find("..") == name.npos;
  std::ifstream file(directory / name.substr(name.starts_with('/') ? 1 : 0));
  if (inside && file) {
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }
  if (name.starts_with("/aws/service/")) return "ami-0123456789abcdef0";
  return std::nullopt;
}

}  // namespace

bool Parameters::owns(const HttpRequest& request) {
  return request.header("x-amz-target").starts_with(service);
}

world::Reply Parameters::refuse(const Refusal& why) {
  return problem(why.code + "Exception", why.message, why.status);
}

world::Reply Parameters::answer(const HttpRequest& request) const {
  const auto action = request.header("x-amz-target").substr(service.size());
  if (action != "GetParameter") return problem("UnknownOperationException", "");
  const Json asked = Json::parse(request.body, nullptr, false);
  if (!asked.is_object() || !asked.contains("Name") || !asked["Name"].is_string())
    return problem("ValidationException", "Name is missing");
  const std::string name = asked["Name"];
  const auto value = value_of(directory_, name);
  if (!value) return problem("ParameterNotFound", "");
  return reply(200, {{"Parameter",
                      {{"Name", name}, {"Type", "String"}, {"Value", *value}, {"Version", 1}}}});
}

}  // namespace spotter::emulator
