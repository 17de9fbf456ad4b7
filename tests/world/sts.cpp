#include "tests/world/sts.hpp"

#include "tests/world/xml.hpp"

namespace spotter::world {
namespace {

constexpr const char* space = "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"";

// https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html
Reply refused(Cloud& cloud, const std::string& action) {
  Xml xml;
  xml.element("Error", [&] {
    xml.text("Type", "Sender");
    xml.text("Code", "InvalidAction");
    xml.text("Message", "Could not find operation " + action + " for version 2011-06-15");
  });
  xml.text("RequestId", cloud.random.uuid());
  return {.status = 400,
          .body = std::string("<ErrorResponse ") + space + ">" + xml.str() + "</ErrorResponse>"};
}

// The prefix of an id says what it is of: AIDA a user, AROA a role.
std::string user_id(const std::string& caller) {
  return caller.starts_with("i-") ? "AROAEMULATOR000000000:" + caller : "AIDAEMULATOR000000000";
}

}  // namespace

std::string arn_of(const std::string& account, const std::string& role, const std::string& caller) {
  if (!caller.starts_with("i-")) return "arn:aws:iam::" + account + ":user/" + caller;
  return "arn:aws:sts::" + account + ":assumed-role/" + role + "/" + caller;
}

std::string arn_of(const Cloud& cloud, const std::string& caller) {
  return arn_of(cloud.settings.account, cloud.settings.role, caller);
}

Reply sts(Cloud& cloud, const Call& call) {
  if (call.action != "GetCallerIdentity") return refused(cloud, call.action);
  Xml xml;
  xml.element("GetCallerIdentityResult", [&] {
    xml.text("Arn", arn_of(cloud, call.caller));
    xml.text("UserId", user_id(call.caller));
    xml.text("Account", cloud.settings.account);
  });
  xml.element("ResponseMetadata", [&] { xml.text("RequestId", cloud.random.uuid()); });
  return {.body = std::string("<GetCallerIdentityResponse ") + space + ">" + xml.str() +
                  "</GetCallerIdentityResponse>"};
}

}  // namespace spotter::world
