#include "agent/gang/record.hpp"

#include <algorithm>

#include "agent/base/record.hpp"

namespace spotter::gang {
namespace {

using wire::Json;

constexpr std::uint64_t known_record = 1;
constexpr auto most_number = static_cast<std::uint64_t>(most_steps);

// Fields that a later version has written beside the fields of a Record, or of a Member.
template <class Known>
std::string beside(const Json& json, const std::set<std::string_view>& also) {
  const Json others = wire::beside_record<Known>(json, also);
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

bool is_a_text(std::string_view text) { return !text.empty() && is_plain(text); }

Result<void> check(const Member& member) {
  if (!is_a_text(member.id) || !is_plain(member.name) || !is_plain(member.address) ||
      !is_plain(member.missed) || !is_plain(member.word) || member.word.size() > longest_word)
    return failure("a member of the gang has an id, a name or an address that is none");
  if (member.beats > most_number || member.leaves_in.value_or(Duration(0)) > longest_leave)
    return failure("the beats or leaves_in_ms of a member of the gang is none that it has");
  if (member.unknown.size() > longest_unknown_of_a_member)
    return tl::unexpected(too_much(member.unknown, longest_unknown_of_a_member));
  return {};
}

Result<void> check(const Record& record) {
  const auto is_step = [](std::int64_t step) { return step >= -1 && step <= most_steps; };
  if (!is_plain(record.job) || !is_plain(record.writer))
    return failure("its job or writer is none that a gang has");
  if (record.round > most_number || !is_step(record.progress) || !is_step(record.newest))
    return failure("its round, progress or newest is no number that a gang has");
  if (record.unknown.size() > longest_unknown)
    return tl::unexpected(too_much(record.unknown, longest_unknown));
  if (std::max({record.members.size(), record.ranks.size(), record.faults.size()}) > most_members)
    return failure("it has more members, ranks or faults than a gang has");
  if (!std::ranges::all_of(record.ranks, is_a_text) || has_twice(record.ranks))
    return failure("a rank of the gang is no member's id, or is there twice");
  for (const auto& [name, count] : record.faults)
    if (!is_a_text(name)) return failure("the faults of the gang's machines are of none");
  std::vector<std::string> ids;
  for (const Member& each : record.members) {
    TRY(check(each));
    ids.push_back(each.id);
  }
  return has_twice(ids) ? failure("two members have one id") : Result<void>();
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
  Record limited = record;
  limited.round = std::min(record.round, most_number);
  limited.progress = std::clamp<std::int64_t>(record.progress, -1, most_steps);
  limited.newest = std::clamp<std::int64_t>(record.newest, -1, most_steps);
  for (Member& each : limited.members) {
    each.beats = std::min(each.beats, most_number);
    if (each.leaves_in) each.leaves_in = std::clamp(*each.leaves_in, Duration(0), longest_leave);
  }
  Json json = wire::object_of(limited);
  json["version"] = known_record;
  add_unknown(json, record.unknown);
  for (std::size_t i = 0; i < record.members.size(); ++i)
    add_unknown(json["members"][i], record.members[i].unknown);
  return wire::json_text(json) + "\n";
}

Result<Record> parse_record(std::string_view text) {
  if (text.size() > longest_record) return failure("it is too long for a gang's record");
  const auto json = TRY(wire::parse_json_object(text));
  if (auto newer = wire::newer(json, "version", known_record, "the gang's record"))
    return tl::unexpected<Error>(std::move(*newer));
  Record record;
  if (const auto wrong = wire::read_record(json, record); !wrong.empty())
    return failure("the gang's record" + wrong);
  record.unknown = beside<Record>(json, {"version"});
  for (std::size_t i = 0; i < record.members.size(); ++i)
    record.members[i].unknown = beside<Member>(json["members"][i], {});
  TRY(check(record));
  return record;
}

}  // namespace spotter::gang
