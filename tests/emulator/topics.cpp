#include "tests/emulator/topics.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/world/query.hpp"
#include "tests/world/service_members.hpp"
#include "tests/world/xml.hpp"

namespace spotter::emulator {
namespace {

constexpr const char* space = "xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"";

world::Reply document(int status, const std::string& name, const world::Xml& xml) {
  return {.status = status, .body = "<" + name + " " + space + ">" + xml.str() + "</" + name + ">"};
}

std::string topic_of(const world::Call& call) {
  return world::Query(call.parameters).text("TopicArn");
}

constexpr std::size_t longest_message = 262'144;  // bytes

// Up to 100 characters of ASCII, no control character among them.
bool is_subject(const std::string& text) {
  return !text.empty() && text.size() <= 100 &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

world::AccessRequest Topics::needed_access(const world::Call& call) {
  return {"sns:" + call.action, topic_of(call)};
}

world::Reply Topics::refuse(int status, const std::string& code, const std::string& message) {
  world::Xml xml;
  xml.element("Error", [&] {
    xml.text("Type", "Sender");
    xml.text("Code", code);
    xml.text("Message", message);
  });
  xml.text("RequestId", "00000000-0000-0000-0000-000000000000");
  return document(status, "ErrorResponse", xml);
}

world::Reply Topics::answer(const world::Call& call, const std::string& region,
                            const std::string& account) {
  const world::Query query(call.parameters);
  if (call.action != "Publish") return refuse(400, "InvalidAction", "only Publish is there");
  if (const auto why = world::refuse_members("sns", call.action, call.parameters))
    return refuse(400, "InvalidParameter", *why);
  const std::string topic = topic_of(call), subject = query.text("Subject");
  const std::string name = topic.substr(topic.rfind(':') + 1);
  const auto file = directory_ / name;
  if (!topic.starts_with("arn:aws:sns:" + region + ":") || name.empty() ||
      name.find('/') != name.npos)
    return refuse(400, "InvalidParameter", "Invalid parameter: TopicArn");
  if (!topic.starts_with("arn:aws:sns:" + region + ":" + account + ":"))
    return refuse(403, "AuthorizationError",
                  "User is not authorized to perform: SNS:Publish on resource: " + topic);
  if (!std::filesystem::exists(file)) return refuse(404, "NotFound", "Topic does not exist");
  if (query.text("Message").empty())
    return refuse(400, "InvalidParameter", "Invalid parameter: Empty message");
  if (query.text("Message").size() > longest_message)
    return refuse(400, "InvalidParameter", "Invalid parameter: Message too long");
  if (call.parameters.contains("Subject") && !is_subject(subject))
    return refuse(400, "InvalidParameter", "Invalid parameter: Subject");
  const std::string id = "message-" + std::to_string(++published_);
  std::ofstream(file, std::ios::app)
      << nlohmann::json{{"Subject", subject}, {"Message", query.text("Message")}, {"MessageId", id}}
             .dump()
      << "\n";
  world::Xml xml;
  xml.element("PublishResult", [&] { xml.text("MessageId", id); });
  xml.element("ResponseMetadata", [&] { xml.text("RequestId", id); });
  return document(200, "PublishResponse", xml);
}

}  // namespace spotter::emulator
