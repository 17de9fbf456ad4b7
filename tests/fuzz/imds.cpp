// Every document of the instance metadata service.
#include "agent/aws/formats/imds.hpp"

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

using Json = nlohmann::json;

const char* word(InterruptionAction action) {
  if (action == InterruptionAction::Stop) return "stop";
  return action == InterruptionAction::Hibernate ? "hibernate" : "terminate";
}

template <class T>
void bounded(const Result<T>& result) {
  must(result || (!result.error().message.empty() && result.error().message.size() < 1000),
       "an error is reported in a line");
}

// A notice stops the training: it comes from a whole document, and means what that says.
void notice(std::string_view bytes) {
  const auto read = wire::parse_spot_notice(bytes);
  bounded(read);
  if (!read) return;
  const auto document = Json::parse(bytes, nullptr, false);
  must(document.is_object() && document.contains("action") && document.contains("time"),
       "a notice is a JSON object with an action and a time");
  must(document["action"] == word(read->action), "the action is the one that is written");
  const Json printed = {{"action", word(read->action)}, {"time", wire::to_rfc3339(read->time)}};
  must(wire::parse_spot_notice(printed.dump()) == *read, "a notice printed reads the same");
  const auto end = bytes.find_last_of('}');
  must(!wire::parse_spot_notice(bytes.substr(0, end)), "half an answer is no notice");
  const auto left = wire::remaining(read->time, wire::WallTime{});
  must(left >= Duration{0} && left <= Duration{wire::longest_notice}, "0 to 120 s are left");
}

void times(std::string_view bytes) {
  for (const auto& time :
       {wire::parse_rfc3339(bytes), wire::parse_http_date(bytes), wire::parse_rebalance(bytes)}) {
    bounded(time);
    if (time) must(wire::parse_rfc3339(wire::to_rfc3339(*time)) == *time, "a time is read back");
  }
}

void identity(std::string_view bytes) {
  const auto read = wire::parse_identity(bytes);
  bounded(read);
  if (!read) return;
  must(!read->instance.empty() && !read->zone.empty() && !read->region.empty() &&
           !read->type.empty(),
       "an identity is complete");
  const Json printed = {{"instanceId", read->instance.view()},
                        {"availabilityZone", read->zone.view()},
                        {"region", read->region.view()},
                        {"instanceType", read->type.view()},
                        {"accountId", read->account}};
  const auto again = wire::parse_identity(printed.dump());
  must(again && again->instance == read->instance && again->zone == read->zone &&
           again->region == read->region && again->type == read->type &&
           again->account == read->account,
       "an identity printed reads the same");
}

void lines(std::string_view bytes) {
  const auto read = wire::parse_lines(bytes);
  std::string joined;
  for (const std::string& line : read) {
    must(!line.empty() && line.find('\n') == line.npos, "a line is one line with something in it");
    joined += line + "\r\n";
  }
  must(wire::parse_lines(joined) == read, "lines joined read the same");
}

}  // namespace

void examine(std::string_view bytes) {
  notice(bytes);
  times(bytes);
  identity(bytes);
  lines(bytes);
  const auto credentials = wire::parse_credentials(bytes);
  must(!credentials ||
           !(credentials->access_key_id.empty() || credentials->secret_access_key.empty()),
       "credentials have both keys");
  wire::parse_lifecycle_state(bytes);
}

}  // namespace spotter::fuzz
