#include "agent/wire/head.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "agent/base/json.hpp"
#include "agent/base/version.hpp"

namespace spotter::wire {
namespace {

constexpr std::uint64_t known_epoch = 1;
constexpr std::array<const char*, 4> states = {"using", "moving", "released", "done"};
// The next one must fit, too.
constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max() - 1;

bool is_of_a_name(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

// A name of EC2: "vol-..." or "i-...", or a holder's. Cut to its length it would be another's.
template <class Id>
bool read_id(const nlohmann::json& json, const char* key, const std::string& prefix, Id& id) {
  const std::string text = text_field(json, key);
  id = Id(text);
  const bool fits = id.view() == text && text.size() > prefix.size() && text.starts_with(prefix);
  return fits && std::all_of(text.begin(), text.end(), is_of_a_name);
}

template <class Count>
bool read_count(const Json& json, const char* key, std::uint64_t limit, Count& count) {
  const auto value = count_field(json, key, limit);
  count = static_cast<Count>(value.value_or(0));
  return value.has_value();
}

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

std::string to_json(const decide::Epoch& epoch) {
  const nlohmann::json json = {{"version", known_epoch},
                               {"epoch", epoch.number},
                               {"state", states[static_cast<std::size_t>(epoch.state)]},
                               {"line", epoch.line.view()},
                               {"volume", epoch.volume.view()},
                               {"generation", epoch.generation},
                               {"holder", epoch.holder.view()},
                               {"left", epoch.left.view()}};
  return json_text(json) + "\n";
}

Result<decide::Epoch> parse_epoch(std::string_view text) {
  const auto json = TRY(parse_json_object(text));
  if (auto newer_one = newer(json, "version", known_epoch, "the epoch"))
    return tl::unexpected<Error>(std::move(*newer_one));
  decide::Epoch epoch;
  const auto state = std::find(states.begin(), states.end(), text_field(json, "state"));
  if (state == states.end()) return failure("its state is no state of an epoch");
  epoch.state = static_cast<decide::Epoch::State>(state - states.begin());
  const bool counts = read_count(json, "epoch", most, epoch.number) && epoch.number > 0 &&
                      read_count(json, "generation", most, epoch.generation);
  if (!counts) return failure("its epoch or generation is no number that an epoch has");
  const bool names = read_id(json, "line", "vol-", epoch.line) &&
                     read_id(json, "volume", "vol-", epoch.volume) &&
                     read_id(json, "holder", "i-", epoch.holder);
  if (!names) return failure("its line, volume or holder is no id of EC2");
  const bool left = text_field(json, "left").empty() || read_id(json, "left", "vol-", epoch.left);
  if (!left) return failure("its `left` is no id of a volume");
  return epoch;
}

bool operator==(const Head& a, const Head& b) { return to_json(a) == to_json(b); }

bool is_home_id(std::string_view id) {
  return id.size() == 32 && std::ranges::all_of(id, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_manifest_name(std::string_view name) {
  constexpr std::string_view begin = "manifests/";
  constexpr std::string_view end = ".json";
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  name = name.substr(begin.size());
  const auto dash = name.find('-');
  if (dash == 0 || dash > 10 || name.size() != dash + 1 + 32 + end.size()) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dash), is_digit) &&
         is_home_id(name.substr(dash + 1, 32));
}

std::string to_json(const Head& head) {
  nlohmann::json json = {{"version", known_head},
                         {"epoch", head.epoch.number},
                         {"state", states[static_cast<std::size_t>(head.epoch.state)]},
                         {"holder", head.epoch.holder.view()},
                         {"job", head.job},
                         {"commits", head.commits},
                         {"manifest", head.manifest},
                         {"bytes", head.bytes}};
  if (!head.id.empty()) json["id"] = head.id;
  if (head.newest >= 0) json["newest"] = head.newest;
  if (head.attempt != 0) json["attempt"] = head.attempt;
  if (head.s3_writes != 0) json["s3_writes"] = head.s3_writes;
  if (head.s3_reads != 0) json["s3_reads"] = head.s3_reads;
  return json_text(json) + "\n";
}

Result<Head> parse_head(std::string_view text) {
  const auto json = TRY(parse_json_object(text));
  if (auto newer_one = newer(json, "version", known_head, "the head"))
    return tl::unexpected<Error>(std::move(*newer_one));
  Head head;
  const auto state = std::find(states.begin(), states.end(), text_field(json, "state"));
  if (state == states.end()) return failure("its state is no state of an epoch");
  head.epoch.state = static_cast<decide::Epoch::State>(state - states.begin());
  if (!read_count(json, "epoch", most, head.epoch.number) || head.epoch.number == 0)
    return failure("its epoch is no number that an epoch has");
  if (!read_id(json, "holder", "", head.epoch.holder))
    return failure("its holder has no name of a holder");
  if (!read_count(json, "commits", most_of_head - 1, head.commits) ||
      !read_count(json, "bytes", most_of_head, head.bytes))
    return failure("its counts are no numbers");
  for (const auto& [key, count] : {std::pair{"attempt", &head.attempt},
                                   {"s3_writes", &head.s3_writes},
                                   {"s3_reads", &head.s3_reads}})
    if (json.contains(key) && !read_count(json, key, most_of_head, *count))
      return failure(std::string("its ") + key + " is no number");
  if (json.contains("newest") && !read_count(json, "newest", most_of_head, head.newest))
    return failure("its step is no number");
  head.job = text_field(json, "job");
  head.id = text_field(json, "id");
  if (!head.id.empty() && !is_home_id(head.id)) return failure("its id is none of a home");
  head.manifest = text_field(json, "manifest");
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
