// A gang's record in S3, which whoever may write to the bucket may have changed.
#include <algorithm>
#include <set>

#include "agent/gang/participant.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

bool is_plain(const std::string& text) {
  return text.size() <= gang::longest_text &&
         std::ranges::none_of(text, [](unsigned char each) { return each < ' ' || each == 0x7f; });
}

void examine_texts(const gang::Record& record) {
  std::set<std::string> ids;
  for (const gang::Member& each : record.members) {
    must(!each.id.empty() && ids.insert(each.id).second, "each member has an id of its own");
    must(is_plain(each.id) && is_plain(each.name) && is_plain(each.address), "a member's texts");
    must(each.leaves_in.value_or(Duration(0)) >= Duration(0), "a member leaves later than now");
  }
  const std::set<std::string> ranks(record.ranks.begin(), record.ranks.end());
  must(ranks.size() == record.ranks.size(), "each rank is another's");
  must(std::ranges::all_of(ranks, is_plain), "a rank's text");
}

// A machine makes another record of it, which all others can read. Numbers that no gang reaches in
// its time have no next one.
void examine_next(const gang::Record& record) {
  constexpr std::uint64_t never = 1ULL << 47U;
  const bool counts = std::ranges::all_of(
      record.members, [](const gang::Member& each) { return each.beats < never; });
  if (!counts || record.round >= never) return;
  gang::Participant self({.job = record.job, .id = "me-1", .name = "me", .size = 4, .min = 2});
  Time now{Duration(1'000'000)};
  (void)self.next(now);
  self.looked(now, gang::Seen{record, "1"});
  self.ready(4000, 7);
  for (int turn = 0; turn < 100; ++turn) {
    now += Duration(1'000);
    const auto ask = self.next(now);
    if (!ask) continue;
    const auto* write = std::get_if<gang::Write>(&*ask);
    const gang::Record& next = write != nullptr ? write->record : self.record();
    must(next.round >= record.round, "rounds go up");
    must(gang::parse_record(to_json(next)) == next, "what one writes the others read");
    write != nullptr ? self.wrote(now, "2") : self.looked(now, gang::Seen{next, "2"});
    (void)self.place();
  }
}

}  // namespace

void examine(std::string_view bytes) {
  const auto record = gang::parse_record(bytes);
  if (!record) return;
  must(bytes.size() <= gang::longest_record, "a record is short");
  must(record->members.size() <= gang::most_members, "a gang has so many members");
  must(record->ranks.size() <= gang::most_members, "and ranks");
  must(record->progress >= -1, "a step, or none");
  examine_texts(*record);
  must(gang::parse_record(to_json(*record)) == *record, "a record printed reads the same");
  examine_next(*record);
}

}  // namespace spotter::fuzz
