#include "agent/wire/head.hpp"

#include <algorithm>

#include "agent/base/record.hpp"

namespace spotter::wire {
namespace {

constexpr std::uint64_t known_epoch = 1;
// The next one must fit, too.
constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max() - 1;

// A name of EC2: "vol-..." or "i-...", or a holder's.
bool is_id(std::string_view text, std::string_view prefix) {
  return text.size() > prefix.size() && text.starts_with(prefix) &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
}

bool has_number(const decide::Epoch& epoch) { return epoch.number > 0 && epoch.number <= most; }

constexpr std::uint64_t known_head = 1;
constexpr std::uint64_t most_of_head = std::numeric_limits<std::int64_t>::max();

// One lost renewal more, and the second that Last-Modified cuts off.
constexpr Duration lease_margin{30'000};
constexpr int leases_in_span = 3;

// No two versions have the same bytes.
HeadChange written(Head next, bool again) {
  ++next.commits;
  return {HeadChange::Kind::Write, std::move(next), again};
}

}  // namespace

std::string to_json(const decide::Epoch& epoch) { return document_of(epoch, known_epoch); }

Result<decide::Epoch> parse_epoch(std::string_view text) {
  const auto epoch = TRY(parse_document<decide::Epoch>(text, known_epoch, "the epoch"));
  if (!has_number(epoch) || !count_field(parsed_json(text), "generation", most))
    return failure("its epoch or generation is no number that an epoch has");
  if (!is_id(epoch.line.view(), "vol-") || !is_id(epoch.volume.view(), "vol-") ||
      !is_id(epoch.holder.view(), "i-"))
    return failure("its line, volume or holder is no id of EC2");
  if (epoch.left && !is_id(epoch.left.view(), "vol-"))
    return failure("its `left` is no id of a volume");
  return epoch;
}

bool operator==(const Head& a, const Head& b) { return to_json(a) == to_json(b); }

bool is_home_id(std::string_view id) {
  return id.size() == 32 && id.find_first_not_of("0123456789abcdef") == id.npos;
}

bool is_manifest_name(std::string_view name) {
  constexpr std::string_view begin = "manifests/";
  constexpr std::string_view end = ".json";
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  name = name.substr(begin.size());
  const auto dash = name.find('-');
  if (dash == 0 || dash > 10 || name.size() != dash + 1 + 32 + end.size()) return false;
  return name.find_first_not_of("0123456789") == dash && is_home_id(name.substr(dash + 1, 32));
}

std::string to_json(const Head& head) {
  Json json = object_of(head);
  json.update(object_of(head.epoch));
  for (const char* const key : {"line", "volume", "generation", "left"}) json.erase(key);
  json["version"] = known_head;
  return json_text(json) + "\n";
}

Result<Head> parse_head(std::string_view text) {
  auto head = TRY(parse_document<Head>(text, known_head, "the head"));
  if (const auto wrong = read_record(parsed_json(text), head.epoch); !wrong.empty())
    return failure("the head" + wrong);
  if (!has_number(head.epoch)) return failure("its epoch is no number that an epoch has");
  if (!is_id(head.epoch.holder.view(), "")) return failure("its holder has no name of a holder");
  if (head.commits >= most_of_head || head.newest < -1 ||
      std::max({head.bytes, head.attempt, head.s3_writes, head.s3_reads}) > most_of_head)
    return failure("its counts are no numbers");
  if (!head.id.empty() && !is_home_id(head.id)) return failure("its id is none of a home");
  if (!head.manifest.empty() && !is_manifest_name(head.manifest))
    return failure("it names no manifest of a home");
  return head;
}

bool is_lease_over(Duration age) { return age > head_lease * leases_in_span + lease_margin; }

std::optional<bool> is_gone_by_claim(const SeenHead& seen, std::uint64_t attempt) {
  if (seen.head.attempt == 0 || attempt == 0) return std::nullopt;
  return seen.head.attempt < attempt || is_lease_over(seen.age);
}

bool is_of_later_claim(const SeenHead& seen, std::uint64_t attempt) {
  return attempt != 0 && seen.head.attempt > attempt && !is_lease_over(seen.age);
}

bool is_held(const Head& head, const HeadHolder& holder) {
  return head.epoch.number == holder.epoch && head.epoch.holder == holder.name &&
         head.epoch.state == decide::Epoch::State::Using;
}

// A commit of our own may have been late; one of another holder shows that it lives.
HeadChange to_epoch(const SeenHead& seen, const decide::Epoch& next, const HomeNames& names) {
  const decide::Epoch& old = seen.head.epoch;
  if (old.number + 1 != next.number) return {HeadChange::Kind::Lost, {}, false};
  if (next.state == decide::Epoch::State::Using && is_of_later_claim(seen, names.attempt))
    return {HeadChange::Kind::Lost, {}, false};
  Head head = seen.head;
  head.epoch = next;
  head.job = names.job;
  head.attempt = names.attempt;
  head.s3_writes = names.s3_writes;
  head.s3_reads = names.s3_reads;
  if (head.id.empty()) head.id = names.id;
  return written(std::move(head), old.holder == next.holder);
}

// A commit that is no longer awaited reads and writes no more; its last write, which may still be
// on its way, is refused once another one was made.
HeadChange to_content(const SeenHead& seen, const HeadHolder& holder, const Head& content) {
  if (!is_held(seen.head, holder)) return {HeadChange::Kind::Lost, {}, false};
  Head head = seen.head;
  head.manifest = content.manifest;
  head.newest = content.newest;
  head.bytes = content.bytes;
  return written(std::move(head), true);  // no other machine writes in this epoch
}

HeadChange to_renewed(const SeenHead& seen, const HeadHolder& holder) {
  if (!is_held(seen.head, holder)) return {HeadChange::Kind::Lost, {}, false};
  if (seen.age < head_lease / 2) return {HeadChange::Kind::Enough, {}, false};  // a commit came
  return written(seen.head, true);
}

}  // namespace spotter::wire
