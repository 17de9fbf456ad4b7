#include "agent/aws/formats/sts.hpp"

#include "agent/aws/formats/ec2_xml.hpp"
#include "agent/base/json.hpp"

namespace spotter::wire {

Query encode(const AssumeRole& request) {
  return {.service = "sts",
          .action = "AssumeRole",
          .version = "2011-06-15",
          .repeatable = Repeatable::Read,
          .parameters = {{"RoleArn", request.role},
                         {"RoleSessionName", request.session},
                         {"DurationSeconds", std::to_string(request.duration.count())}}};
}

template <>
Result<Credentials> decode<AssumeRole>(std::string_view xml) {
  return read_answer(xml, "AssumeRole", [](const Fields& fields) {
    const Fields keys = fields.child("AssumeRoleResult").child("Credentials");
    return Credentials{keys.text("AccessKeyId"), keys.text("SecretAccessKey"),
                       keys.text("SessionToken"), keys.time("Expiration")};
  });
}

std::string container_credentials(const Credentials& credentials, std::string_view role) {
  Json document = {{"AccessKeyId", credentials.access_key_id},
                   {"SecretAccessKey", credentials.secret_access_key},
                   {"Token", credentials.session_token},
                   {"Expiration", to_rfc3339(credentials.expiration.value())}};
  if (!role.empty()) document["RoleArn"] = std::string(role);
  return json_text(document);
}

std::string container_error(std::string_view code, std::string_view message) {
  return json_text({{"code", std::string(code)}, {"message", std::string(message)}});
}

}  // namespace spotter::wire
