#include "agent/aws/formats/aws_command.hpp"

#include <nlohmann/json.hpp>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The name in EC2's Query API if it is not the CLI's. Source: botocore's service model,
// `locationName` and `queryName` of the members that are sent here (tests/launch compares with
// botocore itself).
std::string name_at_ec2(const std::string& name) {
  if (name == "Groups") return "SecurityGroupId";  // of a network interface
  for (const auto* list : {"TagSpecifications", "Tags", "SecurityGroupIds", "NetworkInterfaces",
                           "BlockDeviceMappings", "ReservationTypes"})
    if (name == list) return name.substr(0, name.size() - 1);
  return name;
}

// EC2's lists are Name.1, and some names differ; those of the Query protocol are Name.member.1.
void flatten(const std::string& prefix, const OrderedJson& value, bool ec2,
             std::map<std::string, std::string>& to) {
  if (value.is_object()) {
    for (const auto& [name, item] : value.items())
      flatten((prefix.empty() ? "" : prefix + ".") + (ec2 ? name_at_ec2(name) : name), item, ec2,
              to);
  } else if (value.is_array()) {
    const std::string list = prefix + (ec2 ? "." : ".member.");
    std::size_t number = 0;
    for (const OrderedJson& item : value) flatten(list + std::to_string(++number), item, ec2, to);
  } else {
    to[prefix] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

}  // namespace

Query query_of(const AwsCommand& command) {
  const bool ec2 = command.service == "ec2";
  Query query{.service = command.service,
              .action = command.action,
              .repeatable = command.repeatable,
              .parameters = {}};
  flatten("", parsed_ordered_json(command.input), ec2, query.parameters);
  return query;
}

HttpCall as_http(const AwsCommand& command) {
  if (command.service != "batch") return as_http(query_of(command));
  return {.service = command.service,
          .action = command.action,
          .target = "/v1/" + lower_case(command.action),
          .headers = {{"Content-Type", "application/json"}},
          .body = command.input,
          .repeatable = command.repeatable};
}

std::string command_of(const AwsCommand& command) {
  std::string name;
  for (const char letter : command.action) {
    const bool capital = letter >= 'A' && letter <= 'Z';
    if (capital && !name.empty()) name += '-';
    name += capital ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  const OrderedJson body = parsed_ordered_json(command.input);
  const std::string text = json_text(body, 2);
  return "aws " + command.service + " " + name + " --cli-input-json " + shell_quoted(text);
}

}  // namespace spotter::wire
