#include "agent/aws/formats/imds.hpp"

#include <algorithm>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

template <class Identifier>
Result<Identifier> required_name(const Json& object, const char* name) {
  const auto text = TRY(required_text(object, name));
  if (!Identifier::fits(text)) return failure(std::string(name) + " is too long: " + text);
  return Identifier(text);
}

Result<WallTime> time_field(const Json& object, const char* name) {
  return parse_rfc3339(TRY(required_text(object, name)));
}

}  // namespace

Result<Identity> parse_identity(std::string_view json) {
  const auto document = TRY(parse_json_object(json));
  const auto instance = TRY(required_name<InstanceId>(document, "instanceId"));
  const auto zone = TRY(required_name<Zone>(document, "availabilityZone"));
  const auto region = TRY(required_name<Region>(document, "region"));
  const auto type = TRY(required_name<InstanceType>(document, "instanceType"));
  const auto launched = time_field(document, "pendingTime");
  return Identity{.instance = instance,
                  .zone = zone,
                  .region = region,
                  .type = type,
                  .account = text_field(document, "accountId"),
                  .image = text_field(document, "imageId"),
                  .architecture = text_field(document, "architecture"),
                  .launched = launched ? std::optional(*launched) : std::nullopt};
}

bool can_be_token(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char each) { return each > ' ' && each < '\x7f'; });
}

Result<SpotNotice> parse_spot_notice(std::string_view json) {
  const auto document = TRY(parse_json_object(json));
  const auto action = TRY(required_text(document, "action"));
  const auto time = TRY(time_field(document, "time"));
  if (action == "terminate") return SpotNotice{InterruptionAction::Terminate, time};
  if (action == "stop") return SpotNotice{InterruptionAction::Stop, time};
  if (action == "hibernate") return SpotNotice{InterruptionAction::Hibernate, time};
  return failure("unknown interruption action \"" + action.substr(0, 64) + "\"");
}

Result<WallTime> parse_rebalance(std::string_view json) {
  const auto document = TRY(parse_json_object(json));
  return time_field(document, "noticeTime");
}

LifecycleState parse_lifecycle_state(std::string_view text) {
  const std::string_view state = trimmed(text);
  if (state == "InService") return LifecycleState::InService;
  if (state == "Terminated") return LifecycleState::Terminated;
  return LifecycleState::Other;
}

Result<Credentials> parse_credentials(std::string_view json) {
  const auto document = parse_json_object(json);
  if (!document)
    return failure("the credentials are no JSON object");  // never a secret in a message
  // IMDS says so inside a 200: {"Code": "AssumeRoleUnauthorizedAccess", "Message": ...}
  const std::string code = text_field(*document, "Code");
  if (!code.empty() && code != "Success")
    return failure("no credentials: " + code + " " + text_field(*document, "Message"));
  const auto key = TRY(required_text(*document, "AccessKeyId"));
  const auto secret = TRY(required_text(*document, "SecretAccessKey"));
  Credentials credentials{key, secret, text_field(*document, "Token"), std::nullopt};
  if (document->contains("Expiration")) {
    const auto expiration = TRY(time_field(*document, "Expiration"));
    credentials.expiration = expiration;
  }
  return credentials;
}

std::vector<std::string> parse_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.emplace_back(line);
  }
  return lines;
}

Duration remaining(WallTime notice, WallTime date) {
  return std::clamp(std::chrono::duration_cast<Duration>(notice - date), Duration{0},
                    Duration{longest_notice});
}

}  // namespace spotter::wire
