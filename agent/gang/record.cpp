#include "agent/gang/record.hpp"

#include <algorithm>
#include <array>

#include "agent/base/json.hpp"
#include "agent/base/version.hpp"

namespace spotter::gang {
namespace {

using wire::Json;

constexpr std::uint64_t known_record = 1;
constexpr std::array<const char*, 4> phases = {"forming", "training", "done", "failed"};
constexpr std::array<const char*, 5> ends = {"", "ended", "torn", "failed", "hung"};
constexpr auto most_number = static_cast<std::uint64_t>(most_steps);

std::optional<std::uint64_t> number(const Json& json, const char* field,
                                    std::uint64_t most = most_number) {
  return wire::count_field(json, field, most);
}

constexpr std::array<std::string_view, 15> fields_of_a_member = {
    "id",     "name",    "address",  "missed", "beats",    "port",       "ready",       "apart",
    "faults", "trained", "left_out", "ended",  "replaced", "given_back", "leaves_in_ms"};
constexpr std::array<std::string_view, 15> fields_of_the_record = {
    "version",    "job",   "phase",    "round",  "ranks",   "failures", "apart", "torn",
    "given_back", "sound", "progress", "newest", "members", "writer",   "faults"};

template <std::size_t count>
std::string beside(const Json& json, const std::array<std::string_view, count>& known) {
  Json others = Json::object();
  for (const auto& [name, value] : json.items())
    if (std::ranges::find(known, name) == known.end()) others[name] = value;
  return others.empty() ? "" : wire::json_text(others);
}

Error too_much(const std::string& unknown, std::size_t most) {
  return {"a later version of Spotter has written " + std::to_string(unknown.size()) +
          " bytes of its own into the gang's record or a member of it, and this one hands on " +
          std::to_string(most) +
          " at most: install that version on all machines, or, when none of them runs, delete the "
          "record"};
}

void add_unknown(Json& json, const std::string& unknown) {
  if (unknown.empty()) return;
  const auto others = wire::parse_json_object(unknown);
  if (others) json.insert(others->begin(), others->end());  // a field that is there stays
}

// The text is also for logs and terminals.
bool is_plain(std::string_view text) {
  return text.size() <= longest_text &&
         std::ranges::none_of(text, [](unsigned char each) { return each < ' ' || each == 0x7f; });
}

bool has_twice(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  return std::ranges::adjacent_find(texts) != texts.end();
}

Result<Member> parse_member(const Json& json) {
  if (!json.is_object()) return failure("a member of the gang is no object");
  Member member{.id = wire::text_field(json, "id"),
                .name = wire::text_field(json, "name"),
                .address = wire::text_field(json, "address"),
                .missed = wire::text_field(json, "missed")};
  const auto beats = number(json, "beats");
  const auto port = number(json, "port", UINT16_MAX);
  const auto ready = json.find("ready");
  if (member.id.empty() || !beats || !port || ready == json.end() || !ready->is_boolean())
    return failure("a member of the gang has no id, beats, port or ready");
  if (!is_plain(member.id) || !is_plain(member.name) || !is_plain(member.address) ||
      !is_plain(member.missed))
    return failure("a member of the gang has an id, a name or an address that is none");
  member.beats = *beats;
  member.port = static_cast<std::uint16_t>(*port);
  member.ready = ready->get<bool>();
  // A member of an older version writes not all of them.
  for (const auto& [name, flag] :
       {std::pair{"apart", &member.apart}, std::pair{"trained", &member.trained},
        std::pair{"left_out", &member.left_out}, std::pair{"replaced", &member.replaced},
        std::pair{"given_back", &member.given_back}}) {
    const auto found = json.find(name);
    if (found != json.end() && !found->is_boolean())
      return failure(std::string("the ") + name + " of a member of the gang is no true or false");
    *flag = found != json.end() && found->get<bool>();
  }
  member.faults = static_cast<std::uint32_t>(number(json, "faults", UINT32_MAX).value_or(0));
  member.unknown = beside(json, fields_of_a_member);
  if (member.unknown.size() > longest_unknown_of_a_member)
    return tl::unexpected(too_much(member.unknown, longest_unknown_of_a_member));
  // A later version may use another word.
  const auto end = std::ranges::find(ends, wire::text_field(json, "ended"));
  if (end != ends.end()) member.end = static_cast<End>(end - ends.begin());
  if (!json.contains("leaves_in_ms")) return member;
  const auto leaves =
      number(json, "leaves_in_ms", static_cast<std::uint64_t>(longest_leave.count()));
  if (!leaves) return failure("the leaves_in_ms of a member of the gang is no time");
  member.leaves_in = Duration(*leaves);
  return member;
}

Result<std::map<std::string, std::uint32_t>> parse_faults(const Json& json) {
  std::map<std::string, std::uint32_t> faults;
  if (!json.is_object() || json.size() > most_members)
    return failure("the faults of the gang's machines are no numbers by name");
  for (const auto& [name, count] : json.items()) {
    if (name.empty() || !is_plain(name) || !count.is_number_unsigned())
      return failure("the faults of the gang's machines are no numbers by name");
    faults[name] =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(count.get<std::uint64_t>(), UINT32_MAX));
  }
  return faults;
}

}  // namespace

const Member* Record::find(std::string_view id) const {
  const auto found = std::ranges::find(members, id, &Member::id);
  return found == members.end() ? nullptr : &*found;
}

Member* Record::find(std::string_view id) {
  const auto found = std::ranges::find(members, id, &Member::id);
  return found == members.end() ? nullptr : &*found;
}

std::string to_json(const Record& record) {
  Json members = Json::array();
  for (const Member& each : record.members) {
    members.push_back({{"id", each.id},
                       {"name", each.name},
                       {"beats", std::min(each.beats, most_number)},
                       {"ready", each.ready},
                       {"address", each.address},
                       {"port", each.port}});
    if (each.end != End::Other) members.back()["ended"] = ends[static_cast<std::size_t>(each.end)];
    if (each.apart) members.back()["apart"] = true;
    if (!each.missed.empty()) members.back()["missed"] = each.missed;
    if (each.faults > 0) members.back()["faults"] = each.faults;
    if (each.replaced) members.back()["replaced"] = true;
    if (each.given_back) members.back()["given_back"] = true;
    if (each.trained) members.back()["trained"] = true;
    if (each.left_out) members.back()["left_out"] = true;
    if (each.leaves_in)
      members.back()["leaves_in_ms"] =
          std::clamp(*each.leaves_in, Duration(0), longest_leave).count();
    add_unknown(members.back(), each.unknown);
  }
  Json json = {{"version", known_record},
               {"job", record.job},
               {"phase", phases[static_cast<std::size_t>(record.phase)]},
               {"round", std::min(record.round, most_number)},
               {"ranks", record.ranks},
               {"failures", record.failures},
               {"apart", record.apart},
               {"torn", record.torn},
               {"given_back", record.given_back},
               {"sound", record.sound},
               {"progress", std::clamp<std::int64_t>(record.progress, -1, most_steps)},
               {"newest", std::clamp<std::int64_t>(record.newest, -1, most_steps)},
               {"members", members},
               {"writer", record.writer}};
  if (!record.faults.empty()) json["faults"] = record.faults;
  add_unknown(json, record.unknown);
  return wire::json_text(json) + "\n";
}

Result<Record> parse_record(std::string_view text) {
  if (text.size() > longest_record) return failure("it is too long for a gang's record");
  const auto json = wire::parse_json_object(text);
  if (!json) return tl::unexpected(json.error());
  if (auto newer = wire::newer(*json, "version", known_record, "the gang's record"))
    return tl::unexpected<Error>(std::move(*newer));
  Record record{.job = wire::text_field(*json, "job"), .writer = wire::text_field(*json, "writer")};
  if (!is_plain(record.job) || !is_plain(record.writer))
    return failure("its job or writer is none that a gang has");
  const std::string phase = wire::text_field(*json, "phase");
  const auto which = std::ranges::find(phases, phase);
  if (which == phases.end()) return failure("'" + phase + "' is no phase of a gang");
  record.phase = static_cast<Record::Phase>(which - phases.begin());
  const auto round = number(*json, "round");
  const auto failures = number(*json, "failures", UINT32_MAX);
  const auto step = number(*json, "progress");
  const auto progress = json->find("progress");
  const bool none = progress != json->end() && !progress->is_number_unsigned() && *progress == -1;
  if (!round || !failures || (!step && !none))
    return failure("its round, failures or progress is no number that a gang has");
  record.unknown = beside(*json, fields_of_the_record);
  if (record.unknown.size() > longest_unknown)
    return tl::unexpected(too_much(record.unknown, longest_unknown));
  record.round = *round;
  record.failures = static_cast<std::uint32_t>(*failures);
  // A member of an older version writes none of these.
  record.sound = static_cast<std::uint32_t>(number(*json, "sound", UINT32_MAX).value_or(0));
  record.given_back =
      static_cast<std::uint32_t>(number(*json, "given_back", UINT32_MAX).value_or(0));
  record.torn = static_cast<std::uint32_t>(number(*json, "torn", UINT32_MAX).value_or(0));
  record.apart = static_cast<std::uint32_t>(number(*json, "apart", UINT32_MAX).value_or(0));
  record.progress = step ? static_cast<std::int64_t>(*step) : -1;
  const auto newest = number(*json, "newest");
  record.newest = newest ? static_cast<std::int64_t>(*newest) : -1;
  if (const auto found = json->find("faults"); found != json->end()) {
    auto faults = parse_faults(*found);
    if (!faults) return tl::unexpected(faults.error());
    record.faults = *std::move(faults);
  }
  const auto ranks = json->find("ranks");
  const auto members = json->find("members");
  if (ranks == json->end() || !ranks->is_array() || members == json->end() ||
      !members->is_array() || members->size() > most_members || ranks->size() > most_members)
    return failure("it has no list of ranks and of members");
  for (const Json& rank : *ranks) {
    if (!rank.is_string()) return failure("a rank of the gang is no member's id");
    record.ranks.push_back(rank.get<std::string>());
    if (record.ranks.back().empty() || !is_plain(record.ranks.back()))
      return failure("a rank of the gang is no member's id");
  }
  if (has_twice(record.ranks)) return failure("a member of the gang has two ranks");
  for (const Json& each : *members) {
    auto member = parse_member(each);
    if (!member) return tl::unexpected(member.error());
    if (record.find(member->id) != nullptr) return failure("two members have the id " + member->id);
    record.members.push_back(*std::move(member));
  }
  return record;
}

}  // namespace spotter::gang
