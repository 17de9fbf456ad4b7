#include "tests/world/ec2_api.hpp"

#include <algorithm>

#include "tests/world/ec2_access.hpp"
#include "tests/world/ec2_members.hpp"
#include "tests/world/ec2_names.hpp"
#include "tests/world/ec2_parameters.hpp"
#include "tests/world/iam.hpp"
#include "tests/world/sts.hpp"

namespace spotter::world {

namespace {

const Operations& operations() {
  static const Operations all = [] {
    Operations made;
    add_volume_operations(made);
    add_snapshot_operations(made);
    add_tag_operations(made);
    add_instance_operations(made);
    add_spot_operations(made);
    add_spot_fleet_operations(made);
    add_fleet_operations(made);
    add_template_operations(made);
    add_place_operations(made);
    add_placement_operations(made);
    add_security_group_operations(made);
    add_network_operations(made);
    add_image_operations(made);
    add_reservation_operations(made);
    return made;
  }();
  return all;
}

constexpr const char* declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html, "Common error
// structure"
Reply error_reply(Cloud& cloud, const ApiError& error) {
  Xml xml;
  xml.element("Response", [&] {
    xml.element("Errors", [&] {
      xml.element("Error", [&] {
        xml.text("Code", error.code);
        xml.text("Message", error.message);
      });
    });
    xml.text("RequestID", cloud.random.uuid());
  });
  return {.status = error.http_status, .body = declaration + xml.str()};
}

Reply success_reply(Cloud& cloud, const std::string& action, const Xml& inner) {
  const std::string tag = action + "Response";
  return {.body = declaration +
                  ("<" + tag + " xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">") +
                  "<requestId>" + cloud.random.uuid() + "</requestId>" + inner.str() + "</" + tag +
                  ">"};
}

// A dry run's refusals beside those of access. AWS does not say whether a dry run looks for a
// placement group of the name: here it does.
std::optional<ApiError> refuse_rehearsal(Session& session, const std::string& action) {
  if (action == "RunInstances") return refuse_run(session);
  const std::string name = session.query.text("GroupName");
  const auto group = session.cloud.placement_groups.find(name);
  if (action == "CreatePlacementGroup" && group != session.cloud.placement_groups.end() &&
      !group->second.gone)
    return ApiError{"InvalidPlacementGroup.Duplicate",
                    "The Placement Group '" + name + "' already exists."};
  return std::nullopt;
}

// The operations that do not look for a ClientToken of their own.
bool answers_again(const Call& call) {
  constexpr std::string_view own[] = {"CreateFleet", "CreateVolume"};
  const auto token = call.parameters.find("ClientToken");
  return token != call.parameters.end() && !token->second.empty() &&
         std::ranges::find(own, call.action) == std::end(own);
}

// "If you retry a request with the same client token and the same parameters, the retry succeeds":
// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
std::optional<Reply> answered_before(Cloud& cloud, const Call& call) {
  if (!answers_again(call)) return std::nullopt;
  const auto found = cloud.answered.find(call.action + ' ' + call.parameters.at("ClientToken"));
  if (found == cloud.answered.end()) return std::nullopt;
  if (found->second.first == call.parameters && call.action == "RunInstances")
    return std::nullopt;  // which shows the instances as they are now
  if (found->second.first == call.parameters) return Reply{.body = found->second.second};
  return error_reply(
      cloud, {"IdempotentParameterMismatch", "The client token was used with other parameters."});
}

// What the table honours for any value, and the operation did not look at: a fault of ours, which
// tests/shapes/members_test.py finds.
std::string ignored_members(const std::string& action, const Query& query) {
  const auto& honoured = ec2_members().at(action).honoured.all();
  std::string names;
  for (const std::string& name : query.unread()) {
    const auto found = honoured.find(without_numbers(name));
    const bool only_value = found != honoured.end() && !found->second.empty();
    const bool central =
        name == "Action" || name == "Version" || name == "DryRun" || name == "ClientToken";
    if (!only_value && !central) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

Reply answer(Cloud& cloud, const Call& call) {
  const auto operation = operations().find(call.action);
  const Query query(call.parameters);
  if (auto wrong = check_parameters(call.action, query)) return error_reply(cloud, *wrong);
  if (auto refused = refuse_access(cloud, call)) return error_reply(cloud, *refused);
  // "Checks whether you have the required permissions ... without actually making the request"
  if (query.boolean("DryRun")) {
    Session rehearsal{cloud, query};
    if (const auto refused = refuse_rehearsal(rehearsal, call.action))
      return error_reply(cloud, *refused);
    return error_reply(
        cloud, {"DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412});
  }
  if (auto earlier = answered_before(cloud, call)) return *earlier;
  Session session{cloud, query};
  const bool forbidden = cloud.storage_faults.key_forbidden;
  if (!may_use_key(cloud, call)) cloud.storage_faults.key_forbidden = true;
  const Answer result = operation->second(session);
  cloud.storage_faults.key_forbidden = forbidden;
  if (query.error()) return error_reply(cloud, *query.error());
  if (!result) return error_reply(cloud, result.error());
  Reply reply = success_reply(cloud, call.action, *result);
  const std::string ignored = ignored_members(call.action, query);
  if (!ignored.empty()) reply.headers["x-spotter-ignored"] = ignored;
  if (answers_again(call))
    cloud.answered[call.action + ' ' + query.text("ClientToken")] = {call.parameters, reply.body};
  return reply;
}

}  // namespace

Reply World::refuse(const ApiError& error, Time now) {
  enter(now);
  Reply reply = error_reply(cloud_, error);
  reply.headers["Date"] = http_date(cloud_.wall(cloud_.now));
  return reply;
}

Reply World::ec2(const Call& call, Time now) {
  enter(now);
  if (call.action.empty())
    return refuse({"MissingAction", "The request must contain the parameter Action"}, now);
  if (!operations().count(call.action)) {
    if (is_ec2_operation(call.action))
      return refuse(
          {"UnsupportedOperation", "The emulator does not have " + call.action +
                                       " (`spotter-emulator members` lists what it has)."},
          now);
    return refuse(
        {"InvalidAction", "The action " + call.action + " is not valid for this web service."},
        now);
  }
  const Admission admission = admit(call.action, now);
  Reply reply;
  if (admission.error && !admission.carry_out) {
    reply = error_reply(cloud_, *admission.error);
  } else {
    reply = answer(cloud_, call);
  }
  reply.delay = admission.delay;
  reply.drop = admission.drop;
  reply.headers["Date"] = http_date(cloud_.wall(cloud_.now));
  reply.headers["Server"] = "AmazonEC2";
  return reply;
}

Reply World::sts(const Call& call, Time now) {
  enter(now);
  Reply reply = world::sts(cloud_, call);
  reply.headers["Date"] = http_date(cloud_.wall(cloud_.now));
  return reply;
}

Reply World::iam(const Call& call, Time now) {
  enter(now);
  Reply reply = world::iam(cloud_, call);
  reply.headers["Date"] = http_date(cloud_.wall(cloud_.now));
  return reply;
}

bool begins_empty(const Session& session) {
  return session.cloud.settings.empty_pages && !session.query.has("NextToken");
}

Xml returned_true() {
  Xml xml;
  xml.value("return", true);
  return xml;
}

void write_tags(Xml& xml, const Tags& tags, std::string_view name) {
  if (tags.empty()) return;
  xml.items(name, tags, [&](const auto& tag) {
    xml.text("key", tag.first);
    xml.text("value", tag.second);
  });
}

void write_id_error(Xml& xml, const ApiError& error) {
  xml.element("error", [&] {
    xml.text("code", error.code);
    xml.text("message", error.message);
  });
}

std::string lower_first(std::string name) {
  if (!name.empty()) name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
  return name;
}

namespace {

// Recursion over the names that share a first component; numbers are list items, in numeric order.
void write_sent_items(Xml& xml, const std::map<std::string, std::string>& sent,
                      const ListNames& lists, const char* item) {
  std::map<std::pair<std::size_t, std::string>, std::map<std::string, std::string>> groups;
  for (const auto& [name, value] : sent) {
    const std::size_t dot = name.find('.');
    const std::string first = name.substr(0, dot);
    const bool number = std::isdigit(static_cast<unsigned char>(first[0]));
    groups[{number ? first.size() : 0, first}]
          [dot == std::string::npos ? "" : name.substr(dot + 1)] = value;
  }
  for (const auto& [key, below] : groups) {
    const auto list = lists.find(key.second);
    const bool named = list != lists.end();
    const std::string name = key.first > 0 ? item
                             : named       ? list->second.first
                                           : lower_first(key.second);
    if (const auto leaf = below.find(""); leaf != below.end()) {
      xml.text(name, leaf->second);
    } else {
      xml.element(name, [&, &inner = below] {
        write_sent_items(xml, inner, lists, named ? list->second.second : "item");
      });
    }
  }
}

}  // namespace

void write_sent(Xml& xml, const std::map<std::string, std::string>& sent, const ListNames& lists) {
  write_sent_items(xml, sent, lists, "item");
}

std::optional<Time> time_parameter(Session& session, const std::string& name) {
  if (!session.query.has(name)) return std::nullopt;
  const auto wall = parse_time(session.query.text(name));
  if (!wall) {
    session.query.refuse("InvalidParameterValue", "Invalid time: " + session.query.text(name));
    return std::nullopt;
  }
  const Time time = Time{} + (*wall - session.cloud.settings.origin);
  if (!name.ends_with("ValidUntil")) return time;
  const auto from = time_parameter(session, name.substr(0, name.size() - 5) + "From");
  if (time <= session.cloud.now || (from && time <= *from))
    session.query.refuse("InvalidParameterValue", "ValidUntil is over, or before ValidFrom");
  return time;
}

}  // namespace spotter::world
